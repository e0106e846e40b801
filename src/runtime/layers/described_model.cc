#include "runtime/layers/described_model.h"

#include "base/error.h"

namespace butterfly::runtime {

std::unique_ptr<LoadedModel> describe_model(const std::filesystem::path& path, const LoadOptions& options) {
  auto model =
      std::make_unique<LoadedModel>(model::open_model(path, {options.tokenizer_path, options.access}));
  model->config = model::read_config(model->file, options.context);
  if (!model->file.metadata().has("tokenizer.ggml.model")) return model;
  model->tokenizer = model::make_tokenizer(model->file.metadata());
  if (model->tokenizer->vocab_size() != model->config.vocab)
    fail(Errc::kCorrupt, "{}: the vocabulary has {} tokens, token_embd.weight has {} rows", path.string(),
         model->tokenizer->vocab_size(), model->config.vocab);
  return model;
}

}  // namespace butterfly::runtime
