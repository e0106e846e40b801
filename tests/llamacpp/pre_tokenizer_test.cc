// Every pre-tokenizer name: ids against llama.cpp's, on texts that are hard to cut.
#include "model/tokenizer/pre_tokenizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "base/testing/temp_dir.h"
#include "model/formats/gguf_writer.h"
#include "model/tokenizer/tokenizer.h"
#include "oracle.h"
#include "tricky_texts.h"

namespace butterfly::testing {
namespace {

using model::Metadata;
using model::PreTokenizerRow;
using Ids = std::vector<std::vector<int32_t>>;

struct Case {
  std::string name;
  const PreTokenizerRow* row;
  Metadata metadata;
};

// One per name in the table.
std::vector<Case> all_cases(const std::vector<std::string>& texts) {
  Metadata learned[2] = {Metadata("bytes"), Metadata("raw")};
  for (const bool raw : {false, true}) add_learned_vocabulary(texts, raw, learned[raw]);
  std::vector<Case> cases;
  for (const PreTokenizerRow& row : model::pre_tokenizer_rows())
    for (const std::string_view name : row.names) {
      Metadata metadata = learned[row.raw_text];
      metadata.set("general.architecture", std::string("llama"));
      metadata.set("tokenizer.ggml.model", std::string("gpt2"));
      metadata.set("tokenizer.ggml.pre", std::string(name));
      cases.push_back({std::string(name), &row, std::move(metadata)});
    }
  return cases;
}

TEST(LlamaCppPreTokenizers, IdsAgreeForEveryName) {
  if (const std::string reason = oracle_why_not(); !reason.empty()) GTEST_SKIP() << reason;
  const TempDir dir;
  const auto texts = tricky_texts();
  const auto cases = all_cases(texts);
  std::vector<OracleTexts> jobs;
  for (const Case& c : cases) {
    jobs.push_back({dir.path() / fmt::format("{}.gguf", jobs.size()), texts});
    model::GgufWriter(c.metadata).write(jobs.back().model);
  }
  const auto theirs = oracle_tokens(jobs);
  ASSERT_EQ(theirs.size(), cases.size());
  size_t compared = 0;
  std::set<Ids> distinct;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (const auto* refusal = std::get_if<std::string>(&theirs[i])) {
      fmt::print("{}: llama.cpp here does not read it: {}\n", cases[i].name, *refusal);
      continue;
    }
    const Ids& expected = std::get<Ids>(theirs[i]);
    ASSERT_EQ(expected.size(), texts.size());
    const auto tokenizer = make_tokenizer(cases[i].metadata);
    size_t different = 0;
    for (size_t t = 0; t < texts.size(); ++t) {
      const auto ids = tokenizer->encode(texts[t], {.add_bos = false, .add_eos = false});
      if (ids == expected[t]) continue;
      if (++different <= 3)
        ADD_FAILURE() << cases[i].name << ": '" << texts[t] << "'\n  ours " << ::testing::PrintToString(ids)
                      << "\n  llama.cpp's " << ::testing::PrintToString(expected[t]);
    }
    EXPECT_EQ(different, 0u) << cases[i].name << ", of " << texts.size() << " texts";
    distinct.insert(expected);
    ++compared;
  }
  fmt::print("{} names compared on {} texts; {} ways to cut\n", compared, texts.size(), distinct.size());
  EXPECT_GE(compared, 60u);
}

}  // namespace
}  // namespace butterfly::testing
