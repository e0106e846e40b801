// Says which files only tests use: code that no program runs is either not connected or not needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/testing/source_files.h"
#include "base/testing/source_tree.h"
#include "base/testing/temp_dir.h"

namespace butterfly {
namespace {

using testing::files_under;
using testing::lines_of;
using testing::quoted_include;
using testing::SourceFile;

std::vector<std::string> includes_of(const std::vector<std::string>& lines) {
  std::vector<std::string> includes;
  for (const std::string& line : lines)
    if (const auto include = quoted_include(line)) includes.push_back("src/" + *include);
  return includes;
}

bool has_main(const std::vector<std::string>& lines) {
  for (const std::string& line : lines)
    if (line.starts_with("int main(")) return true;
  return false;
}

std::string stem(const std::string& name) { return name.substr(0, name.rfind('.')); }
std::string folder(const std::string& name) { return name.substr(0, name.rfind('/')); }

// Follows the includes from every program that is not a test. Where the header of a source's own name is
// used, so is the source; a source without such a header, or with one that nobody else includes, belongs to
// the header that it includes first and to those of its folder and the ones above (it is a row of a table
// there, or defines a part of what they declare).
class Reach {
 public:
  explicit Reach(const std::filesystem::path& root) {
    for (SourceFile& file : files_under(root))
      if (file.is(".h") || file.is(".cc")) files_.emplace(file.name, std::move(file));
    std::map<std::string, size_t> others;  // files beside its own source that include a header
    for (const auto& [name, file] : files_)
      for (const std::string& include : includes_of(file.lines))
        others[include] += stem(include) != stem(name);
    for (const auto& [name, file] : files_) {
      if (!file.is(".cc") || file.is_test()) continue;
      const bool own_header = others[stem(name) + ".h"] > 0;
      const std::vector<std::string> includes = includes_of(file.lines);
      for (const std::string& include : includes)
        if (own_header ? stem(include) == stem(name)
                       : folder(name).starts_with(folder(include)) || include == includes.front())
          sources_[include].push_back(name);
    }
    for (const auto& [name, file] : files_)
      if (file.is("_bench.cc") || (!file.is_test() && has_main(file.lines))) use(name);
    // The library is there for programs elsewhere: its headers are what they begin with.
    for (const auto& [name, file] : files_)
      if (file.is(".h") && folder(name) == "src/butterfly") use(name);
    if (!std::filesystem::exists(root / "bench")) return;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "bench"))
      if (entry.path().extension() == ".cc")
        for (const std::string& include : includes_of(lines_of(entry.path()))) use(include);
  }

  std::vector<std::string> unused() const {
    std::vector<std::string> names;
    for (const auto& [name, file] : files_)
      if (!file.is_test() && !used_.contains(name)) names.push_back(name);
    return names;
  }

 private:
  void use(const std::string& name) {
    const auto file = files_.find(name);
    if (file == files_.end() || !used_.insert(name).second) return;
    for (const std::string& include : includes_of(file->second.lines)) use(include);
    for (const std::string& source : sources_[name]) use(source);
  }

  std::map<std::string, SourceFile> files_;
  std::map<std::string, std::vector<std::string>> sources_;  // of a header
  std::set<std::string> used_;
};

// What stays until the part that will call it is there.
const std::set<std::string> kAwaited = {};

TEST(UnusedFiles, ProgramsUseWhatIsThere) {
  std::vector<std::string> unused;
  for (const std::string& name : Reach(source_path()).unused())
    if (!kAwaited.contains(name)) unused.push_back(name);
  EXPECT_THAT(unused, ::testing::IsEmpty()) << "only tests use these: connect them, or delete them";
}

TEST(UnusedFiles, AwaitedOnesAreStillUnused) {
  const std::vector<std::string> unused = Reach(source_path()).unused();
  for (const std::string& name : kAwaited)
    EXPECT_THAT(unused, ::testing::Contains(name)) << "take it off the list";
}

TEST(UnusedFiles, AreFound) {
  testing::TempDir tree;
  tree.write("src/cli/main.cc", "#include \"cli/used.h\"\nint main() {}\n");
  tree.write("src/cli/used.h", "#include \"cli/deep.h\"\n");
  tree.write("src/cli/used.cc", "#include \"cli/used.h\"\n#include \"cli/by_source.h\"\n");
  tree.write("src/cli/deep.h", "\n");
  tree.write("src/cli/deep_part.cc", "#include \"cli/deep.h\"\n");
  tree.write("src/cli/by_source.h", "\n");
  tree.write("src/cli/lost.h", "\n");
  tree.write("src/cli/lost.cc", "#include \"cli/lost.h\"\n#include \"cli/used.h\"\n");
  tree.write("src/cli/lost_test.cc", "#include \"cli/lost.h\"\n");
  tree.write("src/cli/testing/help.h", "\n");
  tree.write("src/cli/raced.h", "\n");
  tree.write("bench/race.cc", "#include \"cli/raced.h\"\n");
  EXPECT_THAT(Reach(tree.path()).unused(), ::testing::ElementsAre("src/cli/lost.cc", "src/cli/lost.h"));
}

}  // namespace
}  // namespace butterfly
