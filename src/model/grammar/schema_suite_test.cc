// Published schemas with instances that are valid and invalid: every valid one is accepted, no invalid one
// is, or the schema is refused in words.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/testing/source_tree.h"
#include "model/grammar/testing/small_vocabulary.h"

namespace butterfly::model::grammar {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
const fs::path kData = shared_data("json");

struct Tally {
  size_t schemas = 0, right = 0;
  std::map<std::string, size_t> refused;  // by file
  std::map<std::string, size_t> reasons;
  std::map<std::string, size_t> wrong;
  size_t refused_count() const {
    size_t sum = 0;
    for (const auto& [file, count] : refused) sum += count;
    return sum;
  }
};

void try_schema(Tally& tally, const std::string& file, const Json& schema, const Json& tests,
                const SchemaOptions& options) {
  ++tally.schemas;
  std::unique_ptr<JsonMatcher> matcher;
  bool empty = false;
  try {
    matcher = std::make_unique<JsonMatcher>(SchemaSets(load_schema(json_text(schema), options)));
  } catch (const Error& error) {
    empty = std::string_view(error.what()).find("no value satisfies") != std::string_view::npos;
    if (!empty) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with("schema at '")) << error.what();
      ++tally.refused[file];
      ++tally.reasons[error.what()];
      return;
    }
  }
  for (const Json& test : tests) {
    const bool valid = test["valid"].get<bool>();
    // Compact, over several lines, and with escapes for everything beyond ASCII.
    bool right = true;
    for (const std::string& text :
         {json_text(test["data"]), json_text(test["data"], 2), test["data"].dump(-1, ' ', true)})
      right = right && (!empty && follow(*matcher, text) < 0) == valid;
    ++(right ? tally.right : tally.wrong[file]);
  }
}

TEST(SchemaSuite, RealSchemas) {
  if (!fs::exists(kData)) GTEST_SKIP() << "no " << kData;
  std::ifstream in(kData / "maskbench/schemas.jsonl");
  Tally tally;
  for (std::string line; std::getline(in, line);) {
    const Json row = json_of_text<Json>(line);
    try_schema(tally, row["name"], row["schema"], row["tests"], {});
  }
  EXPECT_EQ(tally.schemas, 300u);
  EXPECT_LE(tally.refused_count(), 3u) << ::testing::PrintToString(tally.refused);
  EXPECT_GE(tally.right, 848u);
  EXPECT_TRUE(tally.wrong.empty()) << ::testing::PrintToString(tally.wrong);
}

// The files of the suite in which something else than the standard's answer is known and documented:
// Punycode in hostnames and limits of their length are not checked, international addresses only roughly,
// exponents have two digits and are not taken where bounds apply, leap seconds only at the end of a day in
// universal time.
const std::map<std::string, size_t> kKnownWrong{
    {"hostname.json", 24},      {"idn-email.json", 2}, {"time.json", 4},  {"date-time.json", 1},
    {"float-overflow.json", 1}, {"bignum.json", 3},    {"const.json", 1},
};

// The documents that the suite has at this address.
SchemaDocuments remotes() {
  const fs::path folder = kData / "json-schema-test-suite/remotes";
  SchemaDocuments documents;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream in(entry.path());
    documents["http://localhost:1234/" + entry.path().lexically_relative(folder).string()] = {
        std::istreambuf_iterator<char>(in), {}};
  }
  return documents;
}

TEST(SchemaSuite, JsonSchemaTestSuite) {
  if (!fs::exists(kData)) GTEST_SKIP() << "no " << kData;
  Tally tally;
  const SchemaDocuments documents = remotes();
  for (const auto& entry : fs::recursive_directory_iterator(kData / "json-schema-test-suite/tests")) {
    if (entry.path().extension() != ".json") continue;
    const std::string file = entry.path().filename();
    // "format" is a note in the suite, but in the folder that is about it.
    const bool formats = entry.path().string().find("optional/format/") != std::string::npos;
    std::ifstream in(entry.path());
    for (const Json& group : Json::parse(in))
      try_schema(tally, file, group["schema"], group["tests"],
                 {.assert_formats = formats, .documents = &documents});
  }
  EXPECT_EQ(tally.schemas, 461u);
  EXPECT_LE(tally.refused_count(), 19u) << ::testing::PrintToString(tally.reasons);
  EXPECT_GE(tally.right, 1600u);
  EXPECT_EQ(tally.wrong, kKnownWrong);
}

}  // namespace
}  // namespace butterfly::model::grammar
