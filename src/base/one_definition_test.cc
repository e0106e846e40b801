// Says which types are defined twice under one full name. The linker keeps one of their inline functions and
// does not say so: objects of the other are then destroyed by a stranger, which shows only where nothing was
// inlined.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/testing/source_files.h"
#include "base/testing/source_tree.h"
#include "base/testing/temp_dir.h"

namespace butterfly {
namespace {

using testing::files_under;
using testing::SourceFile;

// The type that a line begins to define at its left edge: "Times" of "class Times final : public Base {".
std::string defined_type(std::string_view line) {
  for (const std::string_view key : {"class ", "struct ", "union ", "enum class ", "enum "}) {
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    const size_t end = line.find_first_of(";<{");
    if (end == line.npos || line[end] != '{') continue;  // only named, or one case of a template
    for (line = line.substr(0, end); line.starts_with("[[") || line.starts_with("alignas(");)
      line.remove_prefix(std::min(line.size(), line.find(' ') + 1));
    return std::string(line.substr(0, line.find(' ')));  // "Outer::Inner" whole
  }
  return {};
}

// "butterfly::cluster::Plan": namespaces and what stands in them begin lines, as our formatter has it. Types
// of unnamed namespaces are nobody else's, and files of several instruction sets define theirs once for each.
std::vector<std::string> types_of(const SourceFile& file) {
  std::vector<std::string> within, types;
  for (const std::string& line : file.lines) {
    if (line.starts_with("namespace ") && line.find('{') != line.npos) {
      within.push_back(line.substr(10, line.find_first_of(" {", 10) - 10));
    } else if (line.starts_with("}  // namespace") && !within.empty()) {
      within.pop_back();
    } else if (const std::string type = defined_type(line); !type.empty()) {
      std::string name;
      for (const std::string& space : within) name += space + "::";
      if (std::ranges::none_of(
              within, [](const std::string& space) { return space.empty() || space == "HWY_NAMESPACE"; }))
        types.push_back(name + type);
    }
  }
  return types;
}

std::vector<std::string> defined_twice(const std::filesystem::path& root) {
  std::map<std::string, std::set<std::string>> places;
  for (const SourceFile& file : files_under(root))
    if ((file.is(".h") || file.is(".cc")) &&
        !file.is("_plain.cc"))  // that one is for builds without a library
      for (const std::string& type : types_of(file)) places[type].insert(file.name);
  std::vector<std::string> twice;
  for (const auto& [type, files] : places) {
    if (files.size() < 2) continue;
    std::string text = type + " in";
    for (const std::string& file : files) text += " " + file;
    twice.push_back(text);
  }
  return twice;
}

TEST(OneDefinition, OfEveryTypeOfThisTree) {
  EXPECT_THAT(defined_twice(source_path()), ::testing::IsEmpty()) << "rename one of them";
}

TEST(OneDefinition, TwoOfOneNameAreNamed) {
  const testing::TempDir root;
  root.write(
      "src/a/times.h",
      "namespace butterfly::a {\nclass Times final : public Base {\n};\n}  // namespace butterfly::a\n");
  root.write("src/a/other.h",
             "namespace butterfly::a {\nclass Times;\nstruct Times {\n  class Inner {};\n};\n}  // namespace "
             "butterfly::a\n");
  root.write("src/b/times.h",
             "namespace butterfly::b {\nclass Times {\n};\nclass Inner {};\n}  // namespace butterfly::b\n");
  root.write("src/b/other.cc",
             "namespace butterfly::b {\nstruct Times::Inner {\n};\nnamespace {\nclass Times {\n};\n}  // "
             "namespace\n}  // namespace "
             "butterfly::b\n");
  EXPECT_THAT(defined_twice(root.path()),
              ::testing::ElementsAre("butterfly::a::Times in src/a/other.h src/a/times.h"));
}

}  // namespace
}  // namespace butterfly
