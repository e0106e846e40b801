// Which model a command works on: -m FILE, and --tokenizer FILE for formats that keep the vocabulary apart.
#pragma once
#include <string>

#include "model/formats/model_file.h"

namespace CLI {
class App;
}  // namespace CLI

namespace butterfly::cli {

struct ModelInput {
  std::string path;
  std::string tokenizer;  // empty: in the model file, or beside it

  void add_to(CLI::App& app);  // -m, --model (required; also as plain argument), --tokenizer

  // Throws Error that names the file and what is wrong with it.
  model::ModelFile open() const;
};

}  // namespace butterfly::cli
