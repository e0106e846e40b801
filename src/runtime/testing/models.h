// Models for tests: those of the shared data folder where it is present, and small random ones made on the
// spot.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/compute.h"
#include "base/testing/source_tree.h"
#include "model/adapter/adapter.h"
#include "model/synthetic/random_model.h"
#include "runtime/layers/cached_layers.h"

namespace butterfly::runtime::testing {

inline const std::filesystem::path kModels = shared_data("models");

#define BF_SKIP_WITHOUT(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << (path).string() << " is not here"

std::string read_text(const std::filesystem::path& path);

// A model with its threads: for layers that run by themselves, and for engines and stages.
struct Loaded {
  ThreadPool pool;
  Compute compute;
  std::unique_ptr<LoadedModel> model;
  explicit Loaded(const std::filesystem::path& path, size_t threads = 2, bool with_tokenizer = true,
                  FileAccess access = FileAccess::kMap)
      : pool(threads),
        compute(threads),
        model(load_model(path, pool,
                         {.tokenizer_path = {},
                          .access = access,
                          .with_tokenizer = with_tokenizer,
                          .with_predictor = true,
                          .context = 0,
                          .adapters = {},
                          .progress = {}})) {}
};

// Sizes for tests: a vocabulary of 320, as many layers as its architecture needs, four query heads for each
// KV head.
model::RandomModelOptions small_options(std::string_view architecture, DType type);

// A random model of small_options() in a temporary file, loaded. The file is gone when this dies.
class RandomModel {
 public:
  explicit RandomModel(DType type, size_t threads = 2, uint64_t seed = 7,
                       std::string_view architecture = "llama");
  ~RandomModel();
  Loaded& loaded() { return *loaded_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<Loaded> loaded_;
};

// An adapter of this rank for every matrix that takes one, those of experts, routers and the output layer
// among them, with values as if it had learned already; but not for those that `without` names as GGUF does.
model::Adapter full_adapter(const model::ModelFile& file, const std::vector<std::string>& without = {},
                            size_t rank = 4, uint64_t seed = 3);

// Greedy tokens and their text.
struct Greedy {
  std::vector<int32_t> ids;
  std::string text;
};
Greedy greedy(Loaded& loaded, const std::vector<int32_t>& prompt, size_t tokens, DType kv_type = DType::kF32);

// Bits of the logits after each of `tokens`, run in pieces of these sizes (which sum to the number of
// tokens).
std::vector<uint32_t> logit_bits(Loaded& loaded, const std::vector<int32_t>& tokens,
                                 const std::vector<size_t>& pieces, DType kv_type = DType::kF16);

// `count` token ids that visit the vocabulary.
std::vector<int32_t> some_tokens(size_t count, size_t vocab);

}  // namespace butterfly::runtime::testing
