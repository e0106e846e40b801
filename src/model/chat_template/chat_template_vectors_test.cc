// Real templates and small ones against what Python's Jinja2 gave for them (../shared/data/chat-templates).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/file_text.h"
#include "base/json_text.h"
#include "base/testing/source_tree.h"
#include "model/chat_template/chat_template.h"
#include "model/testing/fixed_day.h"

namespace butterfly::model {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const fs::path kFolder = shared_data("chat-templates");

// The text, or the error with a mark before it.
std::string rendered(const std::string& source, const Json& variables) {
  try {
    return ChatTemplate::compile(source).render_variables(json_text(variables), fixed_day());
  } catch (const Error& error) {
    return std::string("ERROR ") + error.what();
  }
}

void expect_same(const std::string& name, const std::string& found, const Json& expected) {
  if (expected.contains("text")) {
    EXPECT_EQ(found, expected["text"].get<std::string>()) << name;
  } else if (expected["error"].get<std::string>().find("of 'list' object is unsafe") == std::string::npos) {
    // Some changes of lists that Jinja's sandbox refuses work here: ChatTemplateOracle compares their texts.
    EXPECT_TRUE(found.starts_with("ERROR "))
        << name << ": expected an error like " << expected["error"] << ", found " << found;
  }
}

TEST(ChatTemplateVectors, RealTemplatesGiveJinjasText) {
  if (!fs::exists(kFolder)) GTEST_SKIP() << "no " << kFolder;
  const Json contexts = json_of_text<Json>(read_text_file(kFolder / "llamacpp/contexts.json"));
  size_t checked = 0;
  const Json all = json_of_text<Json>(read_text_file(kFolder / "llamacpp/expected.json"));
  for (const auto& [file, cases] : all.items()) {
    const std::string source = read_text_file(kFolder / "llamacpp" / file);
    for (const auto& [context, expected] : cases.items()) {
      expect_same(file + " with " + context, rendered(source, contexts[context]), expected);
      ++checked;
    }
  }
  EXPECT_EQ(checked, 90u);
}

TEST(ChatTemplateVectors, PublishedRenderings) {
  if (!fs::exists(kFolder)) GTEST_SKIP() << "no " << kFolder;
  size_t checked = 0;
  for (const Json& row : json_of_text<Json>(read_text_file(kFolder / "huggingface-js/e2e.json"))) {
    const std::string target = row.contains("target_jinja2") ? "target_jinja2" : "target";
    EXPECT_EQ(rendered(row["chat_template"], row["data"]), row[target].get<std::string>()) << row["name"];
    ++checked;
  }
  EXPECT_EQ(checked, 27u);
}

TEST(ChatTemplateVectors, SmallTemplates) {
  if (!fs::exists(kFolder)) GTEST_SKIP() << "no " << kFolder;
  size_t checked = 0;
  for (const Json& row : json_of_text<Json>(read_text_file(kFolder / "huggingface-js/jinja-unit.json"))) {
    expect_same(row["name"], rendered(row["template"], row["context"]), row["jinja2"]);
    ++checked;
  }
  EXPECT_EQ(checked, 79u);
}

}  // namespace
}  // namespace butterfly::model
