// One model, one result, whatever the file format: a Hugging Face folder, its GGUF, the parts of a split one.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/testing/temp_dir.h"
#include "model/formats/convert.h"
#include "model/formats/gguf_model.h"
#include "model/formats/gguf_writer.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

using testing::greedy;
using testing::kModels;
using testing::Loaded;
using testing::logit_bits;
using testing::read_text;
using testing::some_tokens;

std::vector<uint32_t> bits_of(const std::filesystem::path& path) {
  Loaded loaded(path, 2, /*with_tokenizer=*/false);
  return logit_bits(loaded, some_tokens(40, loaded.model->config.vocab), {40});
}

TEST(ModelFormats, AFolderEqualsItsGguf) {
  const auto dir = kModels / "tinystories-656k";
  BF_SKIP_WITHOUT(dir);
  const auto expected = bits_of(dir / "tinystories-656k-f32.gguf");
  EXPECT_EQ(bits_of(dir), expected);
  butterfly::testing::TempDir folder;
  ThreadPool pool(2);
  model::convert_model(model::open_model(dir), folder / "ours.gguf", {}, pool);
  EXPECT_EQ(bits_of(folder / "ours.gguf"), expected);

  Loaded loaded(dir, 2, /*with_tokenizer=*/false);
  const auto computed = json_of_text<nlohmann::json>(read_text(dir / "computed-greedy.json"))["greedy_ids"];
  CachedLayers layers(*loaded.model, loaded.pool,
                      {.positions = 0, .sequences = 1, .kv_type = DType::kF32, .rows_max = 512});
  std::vector<int32_t> ids = {1};
  while (ids.size() <= computed.size()) {
    const auto logits =
        layers.run(std::vector<BatchRow>{{ids.back(), 0, static_cast<uint32_t>(ids.size() - 1), true}});
    ids.push_back(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
  }
  EXPECT_EQ(std::vector<int32_t>(ids.begin() + 1, ids.end()), computed.get<std::vector<int32_t>>());
}

TEST(ModelFormats, AFolderGivesTheTextOfItsGguf) {
  const auto dir = kModels / "tinystories-656k";
  BF_SKIP_WITHOUT(dir);
  Loaded folder(dir), gguf(dir / "tinystories-656k-f32.gguf");
  for (const char* prompt : {"Once upon a time", " Lily said \"hi\"\n", "<|end_story|>", ""}) {
    const auto ids = folder.model->tokenizer_or_throw().encode(prompt, {});
    EXPECT_EQ(ids, gguf.model->tokenizer_or_throw().encode(prompt, {})) << prompt;
    const auto a = greedy(folder, ids, 40), b = greedy(gguf, ids, 40);
    EXPECT_EQ(a.ids, b.ids) << prompt;
    EXPECT_EQ(a.text, b.text) << prompt;
  }
}

TEST(ModelFormats, AFolderEqualsTheTensorsAndKeysOfItsGguf) {
  for (const auto& [name, gguf_name] : {std::pair("tinystories-656k", "tinystories-656k-f32.gguf"),
                                        std::pair("tiny-gpt2-golden", "tiny-gpt2.gguf")}) {
    const auto dir = kModels / name;
    BF_SKIP_WITHOUT(dir);
    const model::ModelFile folder = model::open_model(dir), gguf = model::open_model(dir / gguf_name);
    ASSERT_EQ(folder.architecture(), gguf.architecture());
    for (const model::NamedTensor& entry : gguf.tensors()) {
      if (entry.name == "output.weight" && !folder.has(entry.name)) continue;  // tied
      const Tensor a = gguf.tensor(entry.name), b = folder.tensor(entry.name, entry.shape);
      ASSERT_EQ(a.dtype(), b.dtype()) << entry.name;
      EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0) << name << " " << entry.name;
    }
    for (const model::NamedTensor& entry : folder.tensors()) EXPECT_TRUE(gguf.has(entry.name)) << entry.name;
    size_t compared = 0;
    for (const auto& [key, value] : gguf.metadata().entries()) {
      if (!key.starts_with(gguf.architecture() + ".") || !folder.metadata().has(key)) continue;
      EXPECT_EQ(model::meta_text(value), model::meta_text(*folder.metadata().find(key))) << key;
      ++compared;
    }
    EXPECT_GE(compared, 5u) << name;
  }
}

TEST(ModelFormats, SplitEqualsUnsplit) {
  testing::RandomModel whole(DType::kQ8_0);
  const model::ModelFile file = model::open_model(whole.path());
  butterfly::testing::TempDir folder;
  for (uint32_t number = 1; number <= 2; ++number) {
    model::Metadata metadata = file.metadata();
    metadata.set("split.no", static_cast<uint16_t>(number - 1));
    metadata.set("split.count", uint16_t{2});
    metadata.set("split.tensors.count", static_cast<int32_t>(file.tensors().size()));
    model::GgufWriter writer(metadata);
    for (size_t i = number - 1; i < file.tensors().size(); i += 2)
      writer.add_tensor(file.tensors()[i].name, file.tensors()[i].view);
    writer.write(model::gguf_part_path(folder / "m", number, 2));
  }
  EXPECT_EQ(bits_of(folder / "m-00001-of-00002.gguf"), bits_of(whole.path()));
}

}  // namespace
}  // namespace butterfly::runtime
