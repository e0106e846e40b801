#include "runtime/testing/models.h"

#include <unistd.h>

#include <atomic>
#include <bit>
#include <fstream>
#include <set>
#include <sstream>

#include "base/random_stream.h"
#include "base/rng.h"
#include "model/adapter/fresh_adapter.h"
#include "model/arch/adaptable.h"
#include "runtime/testing/plain_generate.h"

namespace butterfly::runtime::testing {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

model::RandomModelOptions small_options(std::string_view architecture, DType type) {
  model::RandomModelOptions options;
  options.architecture = architecture;
  options.vocabulary_size = 320;
  options.embedding_length = 256;
  options.block_count = model::random_architecture(architecture).layers;
  options.feed_forward_length = 512;
  options.head_count = 8;
  options.head_count_kv = 2;
  options.expert_count = 4;
  options.matrix_type = type;
  options.vocabulary_type = type;
  return options;
}

RandomModel::RandomModel(DType type, size_t threads, uint64_t seed, std::string_view architecture) {
  static std::atomic<int> next{0};
  path_ = fs::temp_directory_path() /
          ("butterfly-test-" + std::to_string(getpid()) + "-" + std::to_string(next++) + ".gguf");
  model::RandomModelOptions options = small_options(architecture, type);
  options.seed = seed;
  model::write_random_model(path_, options);
  loaded_ = std::make_unique<Loaded>(path_, threads);
}

RandomModel::~RandomModel() {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

model::Adapter full_adapter(const model::ModelFile& file, const std::vector<std::string>& without,
                            size_t rank, uint64_t seed) {
  const std::set<std::string> takes = model::adaptable_tensors(file);
  std::set<std::string> modules = {"output"};
  for (const model::NamedTensor& tensor : file.tensors())
    if (const std::string& name = tensor.name;
        name.starts_with("blk.") && takes.contains(name) && tensor.shape.rank() > 1) {
      const size_t begin = name.find('.', 4) + 1;
      modules.insert(name.substr(begin, name.rfind('.') - begin));
    }
  for (const std::string& name : without) modules.erase(name);
  model::Adapter adapter = model::fresh_adapter(
      file,
      {.rank = rank, .alpha = 4, .modules = {modules.begin(), modules.end()}, .takes = takes, .seed = seed});
  for (model::LoraPair& pair : adapter.pairs)
    for (int64_t i = 0; i < pair.b.count(); ++i)
      pair.b.data<float>()[i] =
          0.1f * random_normal(seed + 6, random_stream(pair.target), static_cast<uint64_t>(i));
  return adapter;
}

Greedy greedy(Loaded& loaded, const std::vector<int32_t>& prompt, size_t tokens, DType kv_type) {
  CachedLayers layers(*loaded.model, loaded.pool,
                      {.positions = 0, .sequences = 1, .kv_type = kv_type, .rows_max = 512});
  RequestOptions options;
  options.sampling.temperature = 0;
  options.tokens_max = tokens;
  options.ignore_eos = true;
  PlainText result = plain_generate(layers, prompt, options);
  return {std::move(result.tokens), std::move(result.text)};
}

std::vector<uint32_t> logit_bits(Loaded& loaded, const std::vector<int32_t>& tokens,
                                 const std::vector<size_t>& pieces, DType kv_type) {
  CachedLayers layers(*loaded.model, loaded.pool,
                      {.positions = 0, .sequences = 1, .kv_type = kv_type, .rows_max = 512});
  std::vector<uint32_t> bits;
  uint32_t position = 0;
  for (size_t piece : pieces) {
    std::vector<BatchRow> rows;
    for (size_t i = 0; i < piece; ++i, ++position) rows.push_back({tokens.at(position), 0, position, true});
    for (float logit : layers.run(rows)) bits.push_back(std::bit_cast<uint32_t>(logit));
  }
  return bits;
}

std::vector<int32_t> some_tokens(size_t count, size_t vocab) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(random_u64(3, 1, i) % vocab));
  return tokens;
}

}  // namespace butterfly::runtime::testing
