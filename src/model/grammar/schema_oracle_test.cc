// Random texts under real schemas are valid by an independent validator, Python's jsonschema.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/testing/source_tree.h"
#include "base/testing/temp_dir.h"
#include "model/grammar/testing/random_text.h"

namespace butterfly::model::grammar {
namespace {

namespace fs = std::filesystem;
const fs::path kSchemas = shared_data("json/maskbench/schemas.jsonl");

// Says which texts are not valid, and how many there were.
constexpr const char* kScript = R"py(import json, sys, jsonschema
count = bad = 0
def number(text):  # draft 4 would not take 1.0 for an integer
    value = float(text)
    return int(value) if value == int(value) else value
for line in open(sys.argv[1]):
    row = json.loads(line)
    schema, text = row["schema"], row["text"]
    count += 1
    try:
        validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        validator(schema).validate(json.loads(text, parse_float=number))
    except (jsonschema.ValidationError, ValueError) as error:
        bad += 1
        print(row["name"], str(error).splitlines()[0], repr(text)[:300])
print(count, "texts,", bad, "not valid")
sys.exit(bad != 0)
)py";

TEST(SchemaOracle, RandomTextsAreValid) {
  if (!fs::exists(kSchemas)) GTEST_SKIP() << "no " << kSchemas;
  if (std::system("/usr/bin/python3 -W ignore -c 'import jsonschema' 2>/dev/null") != 0)
    GTEST_SKIP() << "needs the package python3-jsonschema";
  const testing::TempDir folder;
  std::ofstream out(folder.path() / "texts.jsonl");
  std::ofstream(folder.path() / "validate.py") << kScript;
  const auto index = small_vocabulary();
  Draws draws{11};
  std::ifstream in(kSchemas);
  for (std::string line; std::getline(in, line);) {
    const auto row = json_of_text<nlohmann::ordered_json>(line);
    // For Python [0] and [False] are equal.
    if (row["name"] == "Synthesized---draft2019_09_valid_const_id20_subschema1_not_2") continue;
    std::shared_ptr<const CompiledGrammar> grammar;
    try {
      grammar = compile_schema(json_text(row["schema"]), index);
    } catch (const Error&) {
      continue;
    }
    for (int i = 0; i < 3; ++i) {
      const std::string text = random_text(*grammar, *index, draws);
      ASSERT_FALSE(text.starts_with("DEAD END") || text.starts_with("REFUSED"))
          << row["name"] << ": " << text;
      if (text.starts_with("NO END")) continue;  // of 3,000 tokens
      out << json_text(
                 nlohmann::ordered_json{{"name", row["name"]}, {"schema", row["schema"]}, {"text", text}})
          << '\n';
    }
  }
  out.close();
  const std::string command = "/usr/bin/python3 -W ignore " + (folder.path() / "validate.py").string() + " " +
                              (folder.path() / "texts.jsonl").string();
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace butterfly::model::grammar
