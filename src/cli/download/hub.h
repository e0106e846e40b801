// Models of a hub that speaks Hugging Face's protocol: which files belong to one, where they are, what their
// hashes are.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/download/url.h"

namespace butterfly::cli {

// "hf.co/OWNER/REPO[:TYPE]".
struct HubModel {
  std::string owner, repository;
  std::string type;  // "Q4_K_M", or a file's name; empty: the usual one
};
// Nothing for other texts (a URL, say). Throws Error kInvalidArgument for names that no hub has.
std::optional<HubModel> parse_hub_model(std::string_view text);

struct HubFile {
  std::string name;  // in the repository, with its folders
  std::optional<uint64_t> bytes;
  std::string sha256;  // of large files; empty: not known
};

// What a repository has. Names come from strangers: those that could lead out of a folder are left out.
std::vector<HubFile> hub_files(std::string_view json, const std::string& place);

// The files to fetch: one GGUF file or all parts of one, of the type; or, in a repository without GGUF, the
// safetensors with all that belongs to them. Throws Error that lists the types there are.
struct HubChoice {
  std::string name;  // for the store
  bool folder = false;
  std::vector<HubFile> files;
};
HubChoice choose_files(const std::vector<HubFile>& files, const HubModel& model);

// Where: $HF_ENDPOINT, or the hub that everybody means. The token: $HF_TOKEN.
Url hub_endpoint();
std::string hub_token();
Url hub_list_url(const Url& hub, const HubModel& model);
Url hub_file_url(const Url& hub, const HubModel& model, const std::string& file);

}  // namespace butterfly::cli
