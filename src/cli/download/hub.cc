#include "cli/download/hub.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_text.h"
#include "model/formats/gguf_model.h"

namespace butterfly::cli {
namespace {

constexpr std::string_view kHub = "https://huggingface.co";
// What most people want, best first: small, and hardly worse than the whole.
constexpr const char* kUsualTypes[] = {"q4_k_m", "q4_k_s", "q4_0", "q5_k_m", "q8_0", "mxfp4", "f16", "bf16"};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 200 && text != "." && text != ".." && !text.starts_with(".") &&
         std::all_of(text.begin(), text.end(), is_name_char);
}
// Folders and a file, each with a name of its own.
bool is_path(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('/'), text.size());
    if (!is_name(text.substr(0, end))) return false;
    if (end == text.size()) return true;
    text.remove_prefix(end + 1);
  }
  return false;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Of a GGUF file, without its ending and without the numbers of parts: "Model-Q4_K_M".
std::string stem_of(const std::string& file) {
  const auto part = model::parse_gguf_part(base_name(file));
  return part ? part->prefix.filename().string() : std::filesystem::path(base_name(file)).stem().string();
}

// "Model-Q4_K_M" has type q4_k_m: what follows the last '-' or '.', where that looks like a type.
std::string type_of(const std::string& stem) {
  const size_t at = stem.find_last_of("-.");
  const std::string last = lower(at == std::string::npos ? stem : stem.substr(at + 1));
  const bool typed =
      last.size() >= 2 &&
      (last.starts_with("q") || last.starts_with("iq") || last.starts_with("tq") || last.starts_with("f") ||
       last.starts_with("bf") || last.starts_with("mxfp")) &&
      std::any_of(last.begin(), last.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  return typed ? last : "";
}

// GGUF models of a repository by their stems, parts together.
std::map<std::string, std::vector<HubFile>> gguf_models(const std::vector<HubFile>& files) {
  std::map<std::string, std::vector<HubFile>> models;
  for (const HubFile& file : files) {
    if (!lower(file.name).ends_with(".gguf") || lower(base_name(file.name)).starts_with("mmproj")) continue;
    models[stem_of(file.name)].push_back(file);
  }
  for (auto& [stem, parts] : models)
    std::sort(parts.begin(), parts.end(), [](const HubFile& a, const HubFile& b) { return a.name < b.name; });
  return models;
}

void check_parts(const std::string& stem, const std::vector<HubFile>& parts) {
  const auto first = model::parse_gguf_part(base_name(parts.front().name));
  const size_t expected = first ? first->count : 1;
  if (parts.size() != expected)
    fail(Errc::kNotFound, "{}: has {} files there, expected {}", stem, parts.size(), expected);
}

HubChoice choose_gguf(const std::map<std::string, std::vector<HubFile>>& models, const HubModel& model) {
  const std::string wanted = lower(model.type);
  std::vector<std::string> fitting, types;
  for (const auto& [stem, parts] : models) {
    types.push_back(type_of(stem).empty() ? stem : type_of(stem));
    if (!wanted.empty() &&
        (type_of(stem) == wanted || lower(stem) == wanted || lower(stem) + ".gguf" == wanted))
      fitting.push_back(stem);
  }
  if (wanted.empty() && models.size() == 1) fitting.push_back(models.begin()->first);
  for (const char* usual : kUsualTypes) {
    if (!wanted.empty() || !fitting.empty()) break;
    for (const auto& [stem, parts] : models)
      if (type_of(stem) == usual) fitting.push_back(stem);
  }
  std::transform(types.begin(), types.end(), types.begin(), [](std::string& type) {
    std::transform(type.begin(), type.end(), type.begin(), [](unsigned char c) { return std::toupper(c); });
    return type;
  });
  const std::string place = fmt::format("hf.co/{}/{}", model.owner, model.repository);
  if (fitting.empty())
    fail(Errc::kNotFound, "{}: {}; choose one: butterfly pull {}:TYPE, with one of {}", place,
         wanted.empty() ? "has several files" : fmt::format("has no file of type '{}'", model.type), place,
         fmt::join(types, ", "));
  if (fitting.size() > 1)
    fail(Errc::kInvalidArgument, "{}: several files fit; name one: butterfly pull {}:NAME, with one of {}",
         place, place, fmt::join(fitting, ", "));
  HubChoice choice{.name = fitting.front(), .folder = false, .files = models.at(fitting.front())};
  check_parts(choice.name, choice.files);
  return choice;
}

HubChoice choose_safetensors(const std::vector<HubFile>& files, const HubModel& model) {
  HubChoice choice{.name = model.repository, .folder = true, .files = {}};
  static const std::set<std::string> kBeside = {"config.json",
                                                "tokenizer.json",
                                                "tokenizer_config.json",
                                                "tokenizer.model",
                                                "generation_config.json",
                                                "special_tokens_map.json",
                                                "added_tokens.json",
                                                "vocab.json",
                                                "merges.txt",
                                                "chat_template.jinja",
                                                "model.safetensors.index.json"};
  bool config = false, weights = false;
  for (const HubFile& file : files) {
    if (file.name.find('/') != std::string::npos) continue;
    const bool tensors = file.name.ends_with(".safetensors");
    if (!tensors && !kBeside.contains(file.name)) continue;
    weights |= tensors;
    config |= file.name == "config.json";
    choice.files.push_back(file);
  }
  if (!config || !weights)
    fail(Errc::kNotFound,
         "hf.co/{}/{}: has neither a .gguf file nor config.json with .safetensors, so it is no model that "
         "can be "
         "run; look for a repository whose name ends with GGUF",
         model.owner, model.repository);
  if (!model.type.empty())
    fail(Errc::kInvalidArgument,
         "hf.co/{}/{}: has no GGUF files, so no types to choose from; pull it without ':{}', then 'butterfly "
         "quantize'",
         model.owner, model.repository, model.type);
  return choice;
}

}  // namespace

std::optional<HubModel> parse_hub_model(std::string_view text) {
  for (const std::string_view prefix :
       {"https://huggingface.co/", "https://hf.co/", "huggingface.co/", "hf.co/"}) {
    if (!text.starts_with(prefix)) continue;
    std::string_view rest = text.substr(prefix.size());
    if (rest.find("/resolve/") != std::string_view::npos || rest.find("/blob/") != std::string_view::npos)
      return std::nullopt;  // one file, by its address
    HubModel model;
    if (const size_t colon = rest.find(':'); colon != std::string_view::npos) {
      model.type = rest.substr(colon + 1);
      rest = rest.substr(0, colon);
    }
    if (rest.ends_with("/")) rest.remove_suffix(1);
    const size_t slash = rest.find('/');
    model.owner = rest.substr(0, std::min(slash, rest.size()));
    model.repository = slash == std::string_view::npos ? "" : rest.substr(slash + 1);
    if (!is_name(model.owner) || !is_name(model.repository) || (!model.type.empty() && !is_name(model.type)))
      fail(Errc::kInvalidArgument, "'{:.200}': expected hf.co/OWNER/REPO or hf.co/OWNER/REPO:TYPE", text);
    return model;
  }
  return std::nullopt;
}

std::vector<HubFile> hub_files(std::string_view json, const std::string& place) {
  const auto parsed = json_of_text_or_none<nlohmann::json>(json);
  if (!parsed.is_object() || !parsed.contains("siblings") || !parsed["siblings"].is_array())
    fail(Errc::kCorrupt, "{}: the list of its files cannot be read", place);
  std::vector<HubFile> files;
  for (const nlohmann::json& row : parsed["siblings"]) {
    if (!row.is_object() || !row.contains("rfilename") || !row["rfilename"].is_string()) continue;
    HubFile file{.name = row["rfilename"].get<std::string>(), .bytes = {}, .sha256 = {}};
    if (!is_path(file.name)) continue;
    if (row.contains("size") && row["size"].is_number_unsigned()) file.bytes = row["size"].get<uint64_t>();
    if (row.contains("lfs") && row["lfs"].is_object() && row["lfs"].contains("sha256") &&
        row["lfs"]["sha256"].is_string())
      file.sha256 = lower(row["lfs"]["sha256"].get<std::string>());
    files.push_back(std::move(file));
  }
  return files;
}

HubChoice choose_files(const std::vector<HubFile>& files, const HubModel& model) {
  const auto models = gguf_models(files);
  return models.empty() ? choose_safetensors(files, model) : choose_gguf(models, model);
}

Url hub_endpoint() {
  const char* endpoint = std::getenv("HF_ENDPOINT");
  const bool given = endpoint != nullptr && *endpoint != 0;
  Result<Url> url = parse_url(given ? endpoint : kHub);
  if (!url) fail(Errc::kInvalidArgument, "HF_ENDPOINT: {}", url.status().text());
  return std::move(url).or_throw();
}

std::string hub_token() {
  const char* token = std::getenv("HF_TOKEN");
  const std::string text = token == nullptr ? "" : token;
  if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c <= ' ' || c >= 127; }))
    fail(Errc::kInvalidArgument, "HF_TOKEN: has characters that no token has");
  return text;
}

namespace {

Url below(const Url& hub, const std::string& path) {
  Url url = hub;
  while (url.target.ends_with("/")) url.target.pop_back();
  url.target += path;
  return url;
}

}  // namespace

Url hub_list_url(const Url& hub, const HubModel& model) {
  return below(hub, fmt::format("/api/models/{}/{}?blobs=true", model.owner, model.repository));
}

Url hub_file_url(const Url& hub, const HubModel& model, const std::string& file) {
  return below(hub, fmt::format("/{}/{}/resolve/main/{}", model.owner, model.repository, url_encoded(file)));
}

}  // namespace butterfly::cli
