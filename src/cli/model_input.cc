#include "cli/model_input.h"

#include <CLI/App.hpp>

namespace butterfly::cli {

void ModelInput::add_to(CLI::App& app) {
  app.add_option("-m,--model,FILE", path, "Model file: GGUF or llama2.c")->type_name("FILE")->required();
  app.add_option("--tokenizer", tokenizer,
                 "Vocabulary of a llama2.c model (default: tokenizer.bin beside it)")
      ->type_name("FILE");
}

model::ModelFile ModelInput::open() const { return model::open_model(path, {.tokenizer_path = tokenizer}); }

}  // namespace butterfly::cli
