// Which model a command works on: -m FILE or NAME, --tokenizer FILE for formats that keep the vocabulary
// apart, and --no-mmap.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "model/formats/model_file.h"
#include "runtime/layers/loaded_model.h"

namespace CLI {
class App;
}  // namespace CLI

namespace butterfly::cli {

struct ModelInput {
  std::string path;
  std::string tokenizer;  // empty: in the model file, or beside it
  bool no_mmap = false;   // read the files instead of mapping them

  // -m, --model (also as plain argument), --tokenizer, --no-mmap
  void add_to(CLI::App& app, bool required = true);

  // `path`, or where the store keeps the model of that name.
  std::filesystem::path resolved() const;
  FileAccess access() const { return no_mmap ? FileAccess::kRead : FileAccess::kMap; }
  // Both throw Error that names the file and what is wrong with it.
  model::ModelFile open() const;
  // With a progress bar; Ctrl-C stops it.
  std::unique_ptr<runtime::LoadedModel> load(ThreadPool& pool, runtime::LoadOptions options = {}) const;
  // Without its weights, which others have.
  std::unique_ptr<runtime::LoadedModel> describe(runtime::LoadOptions options = {}) const;
};

}  // namespace butterfly::cli
