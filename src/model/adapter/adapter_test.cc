#include "model/adapter/adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/testing/source_tree.h"
#include "model/testing/adapter_in_memory.h"
#include "model/tokenizer/vector_files.h"

namespace butterfly::model {
namespace {

// What the fuzzer starts from are adapters that fit, so that it begins behind the first checks.
TEST(AdapterFuzzSeeds, Fit) {
  const ModelFile base = testing::fuzz_base_model();
  std::map<std::string, std::vector<std::string>> targets;
  const std::filesystem::path folder = source_path("src/model/adapter/adapter_fuzz_corpus");
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string bytes = read_whole_file(entry.path());
    const Adapter adapter =
        testing::adapter_in_memory({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, base);
    for (const LoraPair& pair : adapter.pairs) {
      EXPECT_TRUE(testing::fits(adapter, pair, base)) << entry.path() << ": " << pair.target;
      targets[entry.path().filename().string()].push_back(pair.target);
    }
  }
  using ::testing::ElementsAre;
  EXPECT_THAT(targets["gguf.bin"], ElementsAre("blk.0.attn_q.weight", "blk.0.ffn_down.weight"));
  EXPECT_THAT(targets["peft.bin"],
              ElementsAre("blk.0.attn_k.weight", "blk.0.attn_q.weight", "blk.0.ffn_down.weight"));
  EXPECT_THAT(targets["peft-head.bin"], ElementsAre("output.weight"));
  EXPECT_THAT(targets["peft-embedding.bin"], ElementsAre("token_embd.weight"));
}

}  // namespace
}  // namespace butterfly::model
