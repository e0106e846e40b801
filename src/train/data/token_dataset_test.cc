// Windows of tokens from files and memory, and documents packed into windows.
#include "train/data/token_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "base/error.h"
#include "base/testing/temp_dir.h"
#include "train/data/split_dataset.h"

namespace butterfly::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Batch item_of(const Dataset& data, uint64_t item) {
  Batch batch;
  batch.resize(1, data.shape());
  data.read(item, batch.row(0));
  return batch;
}

template <typename F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(TokenDataset, TargetsAreTheIdsMovedByOne) {
  std::vector<int32_t> ids(11);
  std::iota(ids.begin(), ids.end(), 0);
  const TokenDataset data(ids, 4, 100, "numbers");
  EXPECT_EQ(data.size(), 2u);
  const Batch second = item_of(data, 1);
  EXPECT_THAT(second.ids, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(second.targets, ElementsAre(5, 6, 7, 8));
}

TEST(TokenDataset, FilesOfBothWidthsReadAsWritten) {
  const butterfly::testing::TempDir dir;
  const std::vector<int32_t> ids = {1, 65535, 3, 4, 5};
  for (const TokenWidth width : {TokenWidth::kU16, TokenWidth::kU32}) {
    write_token_file(dir / "t", ids, width);
    const auto data = TokenDataset::open(dir / "t", width, 2, 70000);
    EXPECT_EQ(data->size(), 2u);
    EXPECT_THAT(item_of(*data, 0).ids, ElementsAre(1, 65535));
    EXPECT_THAT(item_of(*data, 1).targets, ElementsAre(4, 5));
  }
  EXPECT_THAT(error_of([&] { write_token_file(dir / "t", std::vector<int32_t>{65536}, TokenWidth::kU16); }),
              HasSubstr("65536 does not fit 16 bits"));
}

TEST(TokenDataset, BadFilesAreNamed) {
  const butterfly::testing::TempDir dir;
  const auto odd = dir.write("odd", "abc");
  EXPECT_THAT(error_of([&] { TokenDataset::open(odd, TokenWidth::kU16, 1, 9); }), HasSubstr("odd: 3 bytes"));
  write_token_file(dir / "short", std::vector<int32_t>{1, 2}, TokenWidth::kU16);
  EXPECT_THAT(error_of([&] { TokenDataset::open(dir / "short", TokenWidth::kU16, 2, 9); }),
              HasSubstr("has 2 tokens, one window of 2 needs 3"));
  write_token_file(dir / "high", std::vector<int32_t>{1, 9, 2}, TokenWidth::kU16);
  const auto high = TokenDataset::open(dir / "high", TokenWidth::kU16, 2, 9);
  EXPECT_THAT(error_of([&] { item_of(*high, 0); }), HasSubstr("token 1 is 9, the vocabulary has 9"));
  EXPECT_THAT(error_of([&] { TokenDataset::open(dir / "none", TokenWidth::kU16, 2, 9); }), HasSubstr("none"));
}

TEST(DocumentDataset, WindowsBeginWithDocumentsAndPaddingDoesNotCount) {
  const std::vector<Document> documents = {{{1, 2, 3}}, {{4, 5}}, {{6}}, {{7, 8, 9}}};
  const DocumentDataset data(documents, 6, 0, "docs");
  EXPECT_EQ(data.size(), 2u);
  EXPECT_EQ(data.left_out(), 1u);
  EXPECT_THAT(item_of(data, 0).ids, ElementsAre(document_start(1), 2, 3, document_start(4), 5, 0));
  EXPECT_THAT(item_of(data, 0).targets, ElementsAre(2, 3, kIgnoredTarget, 5, kIgnoredTarget, kIgnoredTarget));
  EXPECT_THAT(item_of(data, 1).ids, ElementsAre(document_start(7), 8, 9, 0, 0, 0));
  EXPECT_THAT(item_of(data, 1).targets,
              ElementsAre(8, 9, kIgnoredTarget, kIgnoredTarget, kIgnoredTarget, kIgnoredTarget));
  EXPECT_EQ(data.targets(), 5u);
}

TEST(DocumentDataset, OneDocumentAWindow) {
  const std::vector<Document> documents = {{{1, 2, 3}, {}}, {{4, 5}, {}}};
  const DocumentDataset data(documents, 6, 0, "docs", /*packed=*/false);
  EXPECT_EQ(data.size(), 2u);
  EXPECT_THAT(item_of(data, 1).ids, ElementsAre(document_start(4), 5, 0, 0, 0, 0));
}

TEST(SplitDataset, EveryItemIsInOnePart) {
  std::vector<int32_t> ids(101);
  std::iota(ids.begin(), ids.end(), 0);
  const auto whole = [&] { return std::make_unique<TokenDataset>(ids, 1, 200, "run"); };
  const auto [learned, kept] = split(whole(), kept_items(100, 0.25), 7);
  EXPECT_EQ(learned->size(), 75u);
  EXPECT_EQ(kept->size(), 25u);
  std::set<int32_t> seen;
  for (const auto* part : {learned.get(), kept.get()})
    for (uint64_t i = 0; i < part->size(); ++i) seen.insert(item_of(*part, i).ids[0]);
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_EQ(kept_items(100, 8), 8u);
  EXPECT_EQ(kept_items(3, 0.01), 1u);
  EXPECT_THAT(error_of([&] { split(whole(), 100, 7); }), HasSubstr("nothing is left to learn"));
}

TEST(DocumentDataset, LongDocumentsAreCutAndPromptsIgnored) {
  const std::vector<Document> documents = {
      {{1, 2, 3, 4, 5, 6, 7}, {false, false, false, true, true, true, true}}};
  const DocumentDataset data(documents, 4, 0, "docs");
  EXPECT_EQ(data.size(), 2u);
  EXPECT_EQ(data.cut(), 1u);
  // Ids 1, 2, 3 are given: the first target that counts is 4.
  EXPECT_THAT(item_of(data, 0).targets, ElementsAre(kIgnoredTarget, kIgnoredTarget, 4, 5));
  EXPECT_THAT(item_of(data, 1).ids, ElementsAre(document_start(5), 6, 7, 0));
  EXPECT_THAT(item_of(data, 1).targets, ElementsAre(6, 7, kIgnoredTarget, kIgnoredTarget));
  EXPECT_THAT(error_of([&] { DocumentDataset(std::vector<Document>{{{1}}}, 4, 0, "tiny"); }),
              HasSubstr("tiny: nothing in it can be learned: 1 documents"));
}

}  // namespace
}  // namespace butterfly::train
