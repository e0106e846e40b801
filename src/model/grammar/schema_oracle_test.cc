// Random texts under real schemas are valid by an independent validator, Python's jsonschema.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/testing/source_tree.h"
#include "base/testing/temp_dir.h"
#include "model/grammar/structured_output.h"
#include "model/grammar/testing/random_text.h"
#include "model/tokenizer/hf_tokenizer.h"
#include "model/tokenizer/vector_files.h"

namespace butterfly::model::grammar {
namespace {

namespace fs = std::filesystem;
const fs::path kSchemas = shared_data("json/maskbench/schemas.jsonl");

// Says which texts are not valid, and how many there were.
constexpr const char* kScript = R"py(import decimal, json, math, re, sys, jsonschema
count = bad = unknown = 0
def number(text):  # draft 4 would not take 1.0 for an integer, and 1e400 is one
    value = decimal.Decimal(text)
    if value != value.to_integral_value():
        near = float(text)
        return value if near.is_integer() else near
    return int(value) if value.adjusted() < 5000 else int(math.copysign(1, value)) * 10**5000
for line in open(sys.argv[1]):
    row = json.loads(line)
    schema, text = row["schema"], row["text"]
    count += 1
    try:
        validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        validator(schema).validate(json.loads(text, parse_float=number))
    except (re.error, jsonschema.RefResolutionError):  # classes and references that this validator does not know
        unknown += 1
    except (jsonschema.ValidationError, ValueError) as error:
        bad += 1
        print(row["name"], str(error).splitlines()[0], repr(text)[:300])
print(count, "texts,", bad, "not valid,", unknown, "not known to the validator")
sys.exit(bad != 0 or unknown > count // 20)
)py";

// Where the validator is wrong: for Python [0] and [False] are equal; and Debian's 4.10 does not count what a
// schema of additionalProperties allows as evaluated, nor follow $dynamicRef.
bool is_odd(const std::string& name) {
  return name == "Synthesized---draft2019_09_valid_const_id20_subschema1_not_2" ||
         name.find("dynamic") != name.npos ||
         name ==
             "unevaluatedProperties.json: unevaluatedProperties with adjacent non-bool "
             "additionalProperties";
}

// All schemas that there are, each with its name.
std::vector<std::pair<std::string, nlohmann::ordered_json>> all_schemas() {
  std::vector<std::pair<std::string, nlohmann::ordered_json>> all;
  std::ifstream in(kSchemas);
  for (std::string line; std::getline(in, line);) {
    const auto row = json_of_text<nlohmann::ordered_json>(line);
    all.emplace_back(row["name"], row["schema"]);
  }
  for (const auto& entry :
       fs::recursive_directory_iterator(shared_data("json/json-schema-test-suite/tests"))) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    for (const auto& group : nlohmann::ordered_json::parse(file))
      all.emplace_back(entry.path().filename().string() + ": " + group["description"].get<std::string>(),
                       group["schema"]);
  }
  return all;
}

bool has_validator() {
  return std::system("/usr/bin/python3 -W ignore -c 'import jsonschema' 2>/dev/null") == 0;
}

std::unique_ptr<Tokenizer> vocabulary(const std::string& name) {
  const fs::path folder = shared_data("tokenizers/" + name);
  return tokenizer_from_json(read_whole_file(folder / "tokenizer.json"),
                             read_whole_file(folder / "tokenizer_config.json"));
}

// As a server does it, on three vocabularies: whatever finishes is valid, whatever cannot be finished is an
// error before it begins, and nothing ends in between.
class SchemaOracleOf : public ::testing::TestWithParam<const char*> {};

TEST_P(SchemaOracleOf, EveryFinishedTextIsValid) {
  if (!fs::exists(kSchemas)) GTEST_SKIP() << "no " << kSchemas;
  if (!has_validator()) GTEST_SKIP() << "needs the package python3-jsonschema";
  const testing::TempDir folder;
  std::ofstream(folder.path() / "validate.py") << kScript;
  const std::string name = GetParam();
  const auto tokenizer = vocabulary(name);
  GrammarCompiler compiler(*tokenizer);
  const TokenIndex index(*tokenizer);
  const EndSeeker seeker(index);
  Draws draws{13};
  std::ofstream out(folder.path() / "texts.jsonl");
  size_t schemas = 0, refused = 0, finished = 0, cut = 0, masks = 0;
  double seconds = 0;
  std::map<std::string, size_t> why;
  for (const auto& [schema_name, schema] : all_schemas()) {
    ++schemas;
    std::shared_ptr<const CompiledGrammar> grammar;
    try {
      GrammarSpec spec;
      spec.kind = GrammarKind::kJsonSchema;
      spec.text = json_text(schema);
      spec.assert_formats = false;
      grammar = compiler.compile(spec);
    } catch (const Error& error) {
      ++refused;
      ++why[std::string(error.what()).substr(0, 60)];
      continue;
    }
    const std::string text = random_text(*grammar, index, draws, seeker, 12, 400);
    ASSERT_FALSE(text.starts_with("DEAD END") || text.starts_with("REFUSED"))
        << name << " " << schema_name << ": " << text;
    if (text.starts_with("NO END")) {
      ++cut;
      ++why[schema_name];
      continue;
    }
    ++finished;
    // What masks cost along the text.
    const auto constraint = grammar->start();
    TokenBits bits(mask_words(tokenizer->vocab_size()), 0);
    for (const int32_t token : tokenizer->encode(text, {.add_bos = false, .add_eos = false})) {
      const auto began = std::chrono::steady_clock::now();
      constraint->mask(bits);
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
      ++masks;
      if (!constraint->accept(token)) break;
    }
    if (is_odd(schema_name)) continue;
    out << json_text(nlohmann::ordered_json{{"name", schema_name}, {"schema", schema}, {"text", text}})
        << '\n';
  }
  out.close();
  std::cout << name << ": " << schemas << " schemas, " << finished << " finished, " << refused
            << " refused in words, " << cut << " cut; a mask takes "
            << 1e6 * seconds / static_cast<double>(masks) << " us of " << tokenizer->vocab_size()
            << " tokens\n";
  // Who must write names that nobody writes by chance does not come to an end.
  EXPECT_GE(finished, schemas * 3 / 4) << ::testing::PrintToString(why);
  const std::string command = "/usr/bin/python3 -W ignore " + (folder.path() / "validate.py").string() + " " +
                              (folder.path() / "texts.jsonl").string();
  EXPECT_EQ(std::system(command.c_str()), 0) << name;
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, SchemaOracleOf, ::testing::Values("gpt2", "qwen2.5", "llama3"),
                         [](const auto& vocabulary) {
                           std::string name = vocabulary.param;
                           std::erase(name, '.');
                           return name;
                         });

TEST(SchemaOracle, RandomTextsAreValid) {
  if (!fs::exists(kSchemas)) GTEST_SKIP() << "no " << kSchemas;
  if (!has_validator()) GTEST_SKIP() << "needs the package python3-jsonschema";
  const testing::TempDir folder;
  std::ofstream out(folder.path() / "texts.jsonl");
  std::ofstream(folder.path() / "validate.py") << kScript;
  const auto index = small_vocabulary();
  const EndSeeker seeker(*index);
  Draws draws{11};
  std::ifstream in(kSchemas);
  for (std::string line; std::getline(in, line);) {
    const auto row = json_of_text<nlohmann::ordered_json>(line);
    if (is_odd(row["name"])) continue;
    std::shared_ptr<const CompiledGrammar> grammar;
    try {
      grammar = compile_schema(json_text(row["schema"]), index);
    } catch (const Error&) {
      continue;
    }
    for (int i = 0; i < 3; ++i) {
      const std::string text = random_text(*grammar, *index, draws, seeker);
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
