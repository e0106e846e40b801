#include "cli/download/hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace butterfly::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<HubFile> files(std::initializer_list<const char*> names) {
  std::vector<HubFile> list;
  for (const char* name : names) list.push_back({name, {}, {}});
  return list;
}
std::vector<std::string> chosen(const std::vector<HubFile>& list, const std::string& type) {
  std::vector<std::string> names;
  for (const HubFile& file : choose_files(list, {"o", "Model", type}).files) names.push_back(file.name);
  return names;
}
std::string refusal(const std::vector<HubFile>& list, const std::string& type) {
  try {
    choose_files(list, {"o", "Model", type});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Hub, NamesOfModels) {
  const auto model = parse_hub_model("hf.co/some-one/Model.v2-GGUF:q4_k_m");
  ASSERT_TRUE(model);
  EXPECT_EQ(model->owner, "some-one");
  EXPECT_EQ(model->repository, "Model.v2-GGUF");
  EXPECT_EQ(model->type, "q4_k_m");
  EXPECT_TRUE(parse_hub_model("https://huggingface.co/a/b/"));
  EXPECT_FALSE(parse_hub_model("https://example.org/a/b.gguf"));
  EXPECT_FALSE(parse_hub_model("https://huggingface.co/a/b/resolve/main/c.gguf"));
  for (const char* bad :
       {"hf.co/", "hf.co/a", "hf.co/a/", "hf.co/a/b/c", "hf.co/../b", "hf.co/a/b:..", "hf.co/a/b?c=d"})
    EXPECT_THROW(parse_hub_model(bad), Error) << bad;
}

TEST(Hub, OneFileOrTheUsualType) {
  EXPECT_THAT(chosen(files({"README.md", "model.gguf"}), ""), ElementsAre("model.gguf"));
  const auto many = files({"m-Q2_K.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-F16.gguf"});
  EXPECT_THAT(chosen(many, ""), ElementsAre("m-Q4_K_M.gguf"));
  EXPECT_THAT(chosen(many, "q8_0"), ElementsAre("m-Q8_0.gguf"));
  EXPECT_THAT(chosen(many, "m-Q2_K.gguf"), ElementsAre("m-Q2_K.gguf"));
  EXPECT_THAT(refusal(many, "q3_k"), HasSubstr("Q2_K, Q4_K_M, Q8_0"));
  EXPECT_THAT(refusal(files({"a.gguf", "b.gguf"}), ""), HasSubstr("has several files"));
}

TEST(Hub, PartsComeTogetherOrNotAtAll) {
  EXPECT_THAT(chosen(files({"x/m-Q8_0-00002-of-00002.gguf", "x/m-Q8_0-00001-of-00002.gguf"}), "Q8_0"),
              ElementsAre("x/m-Q8_0-00001-of-00002.gguf", "x/m-Q8_0-00002-of-00002.gguf"));
  EXPECT_THAT(refusal(files({"m-Q8_0-00001-of-00003.gguf", "m-Q8_0-00003-of-00003.gguf"}), ""),
              HasSubstr("expected 3"));
}

TEST(Hub, FoldersOfSafetensors) {
  EXPECT_THAT(chosen(files({"config.json", "model.safetensors", "pytorch_model.bin", "x/model.safetensors",
                            "README.md", "tokenizer.json"}),
                     ""),
              ElementsAre("config.json", "model.safetensors", "tokenizer.json"));
  EXPECT_THAT(refusal(files({"README.md"}), ""), HasSubstr("no model that can be run"));
  EXPECT_THAT(refusal(files({"config.json", "model.safetensors"}), "q4_0"), HasSubstr("quantize"));
}

TEST(Hub, NamesFromStrangersStayInTheirFolder) {
  const auto list = hub_files(R"({"siblings": [{"rfilename": "../../x.gguf"}, {"rfilename": "/etc/x.gguf"},
    {"rfilename": "a/../x.gguf"}, {"rfilename": ".ssh/x.gguf"}, {"rfilename": "a//x.gguf"}, {"rfilename": "x\u0000.gguf"},
    {"rfilename": "x\n.gguf"}, {"rfilename": "a\\x.gguf"}, {"rfilename": ""}, {"rfilename": 7}, 7,
    {"rfilename": "a/good.gguf", "size": 12, "lfs": {"sha256": "ABCD"}}]})",
                              "there");
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].name, "a/good.gguf");
  EXPECT_EQ(list[0].bytes, 12u);
  EXPECT_EQ(list[0].sha256, "abcd");
  for (const char* text : {"", "[]", "{}", "{\"siblings\": 1}", "<html>"})
    EXPECT_THROW(hub_files(text, "there"), Error);
}

}  // namespace
}  // namespace butterfly::cli
