// Hugging Face folders of every class: the tensors of the GGUF they were made from, and the bits of its
// logits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/testing/temp_dir.h"
#include "model/formats/convert.h"
#include "model/testing/hf_writer.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

using butterfly::testing::TempDir;
using model::ModelFile;
using model::testing::HfWriteOptions;
using model::testing::write_hf_folder;
using testing::Loaded;
using testing::logit_bits;
using testing::small_options;
using testing::some_tokens;

struct Class {
  const char* layout;  // make-model's name
  const char* class_name;
  size_t shards;
  bool tied;
  const char* prefix = "model.";
};

void PrintTo(const Class& c, std::ostream* out) { *out << c.class_name; }

std::vector<uint32_t> bits_of(const std::filesystem::path& path) {
  Loaded loaded(path, 2, /*with_tokenizer=*/false);
  return logit_bits(loaded, some_tokens(40, loaded.model->config.vocab), {40});
}

class HfFolders : public ::testing::TestWithParam<Class> {
 protected:
  void SetUp() override {
    model::RandomModelOptions options = small_options(GetParam().layout, DType::kF32);
    options.context_length = 128;
    options.tied = GetParam().tied;
    if (options.architecture == "gpt2") options.head_count_kv = options.head_count;
    model::write_random_model(dir_ / "made.gguf", options);
  }
  TempDir dir_;
};

TEST_P(HfFolders, FolderAndConvertedFileGiveTheBitsOfTheModelTheyAre) {
  const Class& c = GetParam();
  const ModelFile made = model::open_model(dir_ / "made.gguf");
  write_hf_folder(made, dir_ / "hf", {c.class_name, c.shards, c.prefix});
  const ModelFile folder = model::open_model(dir_ / "hf");
  EXPECT_EQ(folder.architecture(), made.architecture());
  EXPECT_EQ(folder.tensors().size(), made.tensors().size());
  for (const model::NamedTensor& entry : made.tensors()) {
    const Tensor a = made.tensor(entry.name), b = folder.tensor(entry.name, entry.shape);
    ASSERT_EQ(b.dtype(), DType::kF32) << entry.name;
    if (entry.name.ends_with(".ssm_a")) {  // through a logarithm and back
      for (int64_t i = 0; i < a.count(); ++i)
        EXPECT_FLOAT_EQ(a.data<float>()[i], b.data<float>()[i]) << entry.name;
      continue;
    }
    EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0) << entry.name;
  }
  const std::string arch = made.architecture() + ".";
  for (const auto& [key, value] : made.metadata().entries()) {
    if (!key.starts_with(arch) || key == "phi3.rope.scaling.attn_factor")
      continue;  // follows from two lengths
    const model::MetaValue* found = folder.metadata().find(key);
    const bool usual = key.ends_with(".rope.dimension_count") || key == "gpt2.attention.head_count_kv";
    if (usual && found == nullptr) continue;  // all of a head, all heads: what files without the key mean
    ASSERT_NE(found, nullptr) << key;
    EXPECT_EQ(model::meta_text(*found), model::meta_text(value)) << key;
  }
  const auto expected = bits_of(dir_ / "hf");
  if (made.architecture() != "phi3" && !made.has("blk.0.ssm_a")) {
    EXPECT_EQ(bits_of(dir_ / "made.gguf"), expected);
  }
  ThreadPool pool(2);
  model::convert_model(folder, dir_ / "converted.gguf", {}, pool);
  EXPECT_EQ(bits_of(dir_ / "converted.gguf"), expected);
  // The tokenizer goes along.
  const auto tokenizer = make_tokenizer(model::open_model(dir_ / "converted.gguf").metadata());
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("A folder, \xe6\x97\xa5\n")), "A folder, \xe6\x97\xa5\n");
}

INSTANTIATE_TEST_SUITE_P(
    Classes, HfFolders,
    ::testing::Values(
        Class{"llama", "LlamaForCausalLM", 1, false}, Class{"llama", "LlamaForCausalLM", 3, true},
        Class{"llama", "MistralForCausalLM", 2, false}, Class{"mixtral", "MixtralForCausalLM", 4, false},
        Class{"qwen2", "Qwen2ForCausalLM", 1, true}, Class{"qwen3", "Qwen3ForCausalLM", 1, false},
        Class{"qwen3moe", "Qwen3MoeForCausalLM", 3, false}, Class{"phi3", "Phi3ForCausalLM", 2, false},
        Class{"gemma2", "Gemma2ForCausalLM", 1, true}, Class{"gemma3", "Gemma3ForCausalLM", 2, true},
        Class{"qwen35", "Qwen3_5ForCausalLM", 1, true},
        Class{"qwen35", "Qwen3_5ForConditionalGeneration", 2, false, "model.language_model."},
        Class{"qwen35moe", "Qwen3_5MoeForConditionalGeneration", 2, false, "model.language_model."},
        Class{"qwen35moe", "Qwen3_5MoeForCausalLM", 1, false},
        Class{"qwen3next", "Qwen3NextForCausalLM", 2, false}, Class{"gpt-oss", "GptOssForCausalLM", 2, false},
        Class{"smollm3", "SmolLM3ForCausalLM", 1, true}, Class{"mistral3", "Ministral3ForCausalLM", 1, false},
        Class{"mistral3", "Mistral3ForConditionalGeneration", 2, false, "language_model.model."},
        Class{"granite", "GraniteForCausalLM", 1, true},
        Class{"granitemoe", "GraniteMoeSharedForCausalLM", 2, false},
        Class{"lfm2", "Lfm2ForCausalLM", 1, true}, Class{"lfm2moe", "Lfm2MoeForCausalLM", 2, false},
        Class{"olmo2", "Olmo3ForCausalLM", 1, false}, Class{"glm4moe", "Glm4MoeForCausalLM", 1, false},
        Class{"minimax-m2", "MiniMaxM2ForCausalLM", 3, false}, Class{"gemma4", "Gemma4ForCausalLM", 2, true},
        Class{"gemma4", "Gemma4ForConditionalGeneration", 1, true, "model.language_model."},
        Class{"nemotron_h", "NemotronHForCausalLM", 1, false, "backbone."},
        Class{"nemotron_h_moe", "NemotronHForCausalLM", 2, false, "backbone."},
        Class{"granitehybrid", "GraniteMoeHybridForCausalLM", 1, true},
        Class{"deepseek2", "DeepseekV3ForCausalLM", 2, false},
        Class{"qwen3vl", "Qwen3VLForConditionalGeneration", 1, true, "model.language_model."},
        Class{"qwen3vlmoe", "Qwen3VLMoeForConditionalGeneration", 1, false, "model.language_model."},
        Class{"gpt2", "GPT2LMHeadModel", 1, true, ""},
        Class{"gpt2", "GPT2LMHeadModel", 2, true, "transformer."}),
    [](const auto& test) {
      return fmt::format("{}_{}_{}", test.param.class_name, test.param.shards, test.index);
    });

TEST(HfFolderWindow, MistralsReachesTheLayers) {
  TempDir dir;
  model::write_random_model(dir / "made.gguf", small_options("llama", DType::kF32));
  ModelFile made = model::open_model(dir / "made.gguf");
  const auto with_window = [&](uint32_t window) {
    model::Metadata metadata = made.metadata();
    metadata.set("llama.attention.sliding_window", window);
    const ModelFile windowed("test", dir / "made.gguf", metadata,
                             {made.tensors().begin(), made.tensors().end()}, {});
    write_hf_folder(windowed, dir / "hf", {"MistralForCausalLM", 1});
    return bits_of(dir / "hf");
  };
  const auto whole = bits_of(dir / "made.gguf");
  EXPECT_EQ(with_window(40), whole);
  EXPECT_NE(with_window(8), whole);
}

TEST(HfFolderTokenizer, APartThatIsNotSupportedIsNamedWhenItIsNeeded) {
  TempDir dir;
  model::write_random_model(dir / "made.gguf", small_options("llama", DType::kF32));
  write_hf_folder(model::open_model(dir / "made.gguf"), dir / "hf", {"LlamaForCausalLM", 1});
  std::string text = testing::read_text(dir / "hf" / "tokenizer.json");
  const std::string plain = "\"normalizer\":null";
  ASSERT_NE(text.find(plain), std::string::npos);
  text.replace(text.find(plain), plain.size(), "\"normalizer\":{\"type\":\"Rot13\"}");
  dir.write("hf/tokenizer.json", text);
  EXPECT_EQ(model::open_model(dir / "hf").architecture(), "llama");
  EXPECT_NO_THROW(Loaded(dir / "hf", 1, /*with_tokenizer=*/false));
  const auto error = [](auto&& fn) {
    try {
      fn();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  ThreadPool pool(1);
  for (const std::string& message :
       {error([&] { Loaded(dir / "hf", 1, /*with_tokenizer=*/true); }),
        error([&] { model::convert_model(model::open_model(dir / "hf"), dir / "out.gguf", {}, pool); })}) {
    EXPECT_NE(message.find("normalizer"), std::string::npos) << message;
    EXPECT_NE(message.find("Rot13"), std::string::npos) << message;
  }
}

TEST(HfFolderAccess, FilesThatAreReadGiveTheBitsOfMappedOnes) {
  TempDir dir;
  model::write_random_model(dir / "made.gguf", small_options("llama", DType::kQ4_K));
  model::RandomModelOptions floats = small_options("qwen3", DType::kF32);
  model::write_random_model(dir / "floats.gguf", floats);
  write_hf_folder(model::open_model(dir / "floats.gguf"), dir / "hf", {"Qwen3ForCausalLM", 2});
  for (const char* name : {"made.gguf", "hf"}) {
    Loaded mapped(dir / name, 2, /*with_tokenizer=*/false);
    Loaded read(dir / name, 2, /*with_tokenizer=*/false, FileAccess::kRead);
    const auto tokens = some_tokens(40, mapped.model->config.vocab);
    EXPECT_EQ(logit_bits(mapped, tokens, {40}), logit_bits(read, tokens, {40})) << name;
  }
}

}  // namespace
}  // namespace butterfly::runtime
