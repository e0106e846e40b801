// Models by name: a folder of one's own to put them in, and shared folders to read from.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace butterfly::cli {

struct StoredModel {
  std::string name;  // "qwen3" for qwen3.gguf and for a folder qwen3
  std::filesystem::path path;
  uint64_t bytes = 0;
  std::filesystem::file_time_type modified;  // of its youngest file
  bool shared = false;                       // in a folder that is only read
};

// Where models are. The own folder comes first and hides shared models of the same name.
//
// A model is a GGUF or llama2.c file (name without its ending; the parts of a split model are one model) or a
// folder with config.json. Immutable: it looks into the folders anew each time.
class ModelStore {
 public:
  // $XDG_DATA_HOME/butterfly/models (~/.local/share without it), and the folders of BUTTERFLY_MODELS,
  // separated by colons.
  static ModelStore of_user();
  ModelStore(std::filesystem::path own, std::vector<std::filesystem::path> shared);

  const std::filesystem::path& own() const { return own_; }

  std::vector<StoredModel> list() const;  // by name
  // The path of a stored model. Throws Error kNotFound that says what was looked for and names that are near.
  std::filesystem::path find(const std::string& name) const;

  // Puts a copy of a model into the own folder: a hard link where the file system can, a copy where not.
  // `name` empty: the file's. Returns the name. Throws Error kInvalidArgument for a name that is taken or no
  // file name.
  std::string import(const std::filesystem::path& from, std::string name) const;

  // Throws Error kNotFound; kInvalidArgument for a model in a shared folder.
  void remove(const std::string& name) const;

 private:
  std::filesystem::path own_;
  std::vector<std::filesystem::path> shared_;
};

// Throws Error kInvalidArgument for what cannot be the name of a model in the store.
void check_model_name(const std::string& name);

// What `-m` means: a path that exists, else the name of a stored model. Throws Error kNotFound.
std::filesystem::path resolve_model(const std::string& path_or_name);

}  // namespace butterfly::cli
