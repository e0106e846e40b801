#include "cli/models/model_input.h"

#include "cli/console/flags.h"
#include "cli/console/interrupt.h"
#include "cli/console/progress.h"
#include "cli/models/model_store.h"
#include "runtime/layers/described_model.h"

namespace butterfly::cli {

void ModelInput::add_to(CLI::App& app, bool required) {
  Flag model = add_option(app, "-m,--model,FILE", path,
                          "Model: GGUF, Hugging Face folder, llama2.c, or a name from the store")
                   .type_name("FILE");
  if (required) model.required();
  add_option(app, "--tokenizer", tokenizer,
             "Vocabulary of a llama2.c model (default: tokenizer.bin beside it)")
      .type_name("FILE");
  add_flag(app, "--no-mmap", no_mmap,
           "Read the model's files at once instead of mapping them: the same results");
}

std::filesystem::path ModelInput::resolved() const { return resolve_model(path); }

model::ModelFile ModelInput::open() const {
  return model::open_model(resolved(), {.tokenizer_path = tokenizer, .access = access()});
}

std::unique_ptr<runtime::LoadedModel> ModelInput::load(ThreadPool& pool, runtime::LoadOptions options) const {
  Progress progress("loading", 1, ProgressUnit::kBytes);
  options.tokenizer_path = tokenizer;
  options.access = access();
  options.progress = [&](uint64_t done, uint64_t total) {
    throw_if_interrupted();
    progress.update(done, total);
  };
  return runtime::load_model(resolved(), pool, options);
}

std::unique_ptr<runtime::LoadedModel> ModelInput::describe(runtime::LoadOptions options) const {
  options.tokenizer_path = tokenizer;
  options.access = access();
  return runtime::describe_model(resolved(), options);
}

}  // namespace butterfly::cli
