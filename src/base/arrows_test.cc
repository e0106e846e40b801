// Keeps the tree in order: includes follow the arrows, every source is built, files stay small and say what
// they are for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/testing/source_files.h"
#include "base/testing/source_tree.h"
#include "base/testing/temp_dir.h"

namespace butterfly {
namespace {

namespace fs = std::filesystem;
using Complaints = std::vector<std::string>;
using testing::cmake_words;
using testing::files_under;
using testing::lines_of;
using testing::quoted_include;
using File = testing::SourceFile;

// Each folder and the ones it points at directly; it may use everything further along.
const std::map<std::string, std::vector<std::string>> kArrows = {
    {"base", {}},
    {"tensor", {"base"}},
    {"kernels", {"tensor"}},
    {"graph", {"kernels"}},
    {"nn", {"graph"}},
    {"model", {"nn"}},
    {"train", {"model"}},
    {"cluster", {"kernels"}},
    {"runtime", {"train", "cluster"}},
    {"butterfly", {"runtime"}},  // what programs that use the library see
    {"server", {"runtime"}},
    {"cli", {"runtime", "server"}},  // the serve command starts the server; not the other way round
};

// The rooms (sub-folders) of a folder, lowest first: a file may use its own room and those before it. "." are
// the files of the folder itself. Tests and testing/ may use every room.
const std::map<std::string, std::vector<std::string>> kRooms = {
    {"kernels",
     {"simd", "math", "quant", "tiles", "amx", "panels", "matmul", "probe", "rows", "elementwise", "norm",
      "gemm", "conv2d", "pool2d", "attention", "recurrent", "optim", "digest", "ref"}},
    {"graph", {".", "ops"}},
    {"model",
     {"metadata", "tokenizer", "formats", "adapter", "cache", "arch", "synthetic", "sampling", "grammar",
      "chat_template"}},
    {"train", {"data", "optim", "corpus", "tokenizer", "trainer", "networks", "checkpoint", "task", "."}},
    {"cluster",
     {"wire", "identity", "transport", "collective", "enrol", "node", "cost", "partition", "balance", "sim",
      "picture", "weights", "member", "lead", "training"}},
    {"runtime", {"layers", "engine", "chain", "measure", "planning", "training", "nodes", "."}},
    {"server",
     {"settings", "http", "streams", "web", "api", "tools", "models", "fine_tuning", "generation", "context",
      "routes", "."}},
    {"cli", {"console", "download", "models", "nodes", "commands", "."}},
};

constexpr size_t kLinesMax = 800;

bool may_use(const std::string& from, const std::string& to) {
  if (from == to) return true;
  const auto row = kArrows.find(from);
  return row != kArrows.end() && std::any_of(row->second.begin(), row->second.end(),
                                             [&](const auto& next) { return may_use(next, to); });
}

std::string place(const File& file, size_t line) { return file.name + ":" + std::to_string(line + 1) + ": "; }

// A file of one room that includes one of a room further up.
void check_room(const File& file, size_t line, const std::string& target, Complaints& complaints) {
  const auto row = kRooms.find(file.folder);
  if (row == kRooms.end() || file.is_test()) return;
  const auto place_of = [&](const std::string& room) {
    return std::find(row->second.begin(), row->second.end(), room) - row->second.begin();
  };
  const std::string from = testing::room_of(file.name), to = testing::room_of("src/" + target);
  if (to == "testing")
    complaints.push_back(place(file, line) + "includes \"" + target + "\", which is for tests");
  else if (place_of(to) > place_of(from))
    complaints.push_back(place(file, line) + "includes \"" + target + "\", but in src/" + file.folder +
                         " room " + from + " stands below " + to);
}

void check_includes(const File& file, Complaints& complaints) {
  for (size_t i = 0; i < file.lines.size(); ++i) {
    const auto include = quoted_include(file.lines[i]);
    if (!include) continue;
    const std::string& target = *include;
    const size_t slash = target.find('/');
    if (slash == std::string::npos) {
      complaints.push_back(place(file, i) + "includes \"" + target + "\" without its folder; write \"" +
                           file.folder + "/" + target + "\"");
      continue;
    }
    const std::string to = target.substr(0, slash);
    if (kArrows.contains(to) && !may_use(file.folder, to))
      complaints.push_back(place(file, i) + "includes \"" + target + "\", but " + file.folder +
                           " may not use " + to);
    if (to == file.folder) check_room(file, i, target, complaints);
  }
}

void check_links(const File& file, Complaints& complaints) {
  const std::string prefix = "butterfly::";
  for (const std::string& word : cmake_words(file)) {
    const std::string to = word.starts_with(prefix) ? word.substr(prefix.size()) : "";
    if (kArrows.contains(to) && !may_use(file.folder, to))
      complaints.push_back(file.name + ": links " + word + ", but " + file.folder + " may not use " + to);
  }
}

void check_lists(const std::vector<File>& files, Complaints& complaints) {
  std::set<fs::path> listed;
  for (const File& file : files)
    if (file.is("CMakeLists.txt"))
      for (const std::string& word : cmake_words(file))
        listed.insert((file.path.parent_path() / word).lexically_normal());
  for (const File& file : files)
    if (file.is(".cc") && !listed.contains(file.path.lexically_normal()))
      complaints.push_back(file.name + ": is in no list of src/" + file.folder +
                           "/CMakeLists.txt, so nothing builds it");
}

void check_size(const File& file, Complaints& complaints) {
  if (file.is("_data.cc") || file.is("_data.h")) return;  // tables of data may be longer
  if (file.lines.size() > kLinesMax)
    complaints.push_back(file.name + ": has " + std::to_string(file.lines.size()) + " lines, more than " +
                         std::to_string(kLinesMax) + "; look for the seam");
}

void check_header(const File& file, Complaints& complaints) {
  if (file.lines.empty() || !file.lines[0].starts_with("// "))
    complaints.push_back(file.name + ":1: should begin with a line '// what this file is for'");
  // Highway's per-target bodies (-inl.h) are included several times on purpose.
  const bool once = std::find(file.lines.begin(), file.lines.end(), "#pragma once") != file.lines.end();
  if (!once && !file.is("-inl.h")) complaints.push_back(file.name + ": has no #pragma once");
}

bool has_word(std::string_view line, std::string_view word) {
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (size_t at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !in_word(line[at - 1])) && (end == line.size() || !in_word(line[end]))) return true;
  }
  return false;
}

void check_words(const File& file, Complaints& complaints) {
  static const std::string kForbidden[] = {std::string("TO") + "DO",
                                           std::string("FIX") + "ME"};  // not found here
  for (size_t i = 0; i < file.lines.size(); ++i)
    for (const std::string& word : kForbidden)
      if (has_word(file.lines[i], word))
        complaints.push_back(place(file, i) + "says " + word +
                             "; do it, or write it down where work is planned");
}

void check_folders(const fs::path& root, const std::vector<File>& files, Complaints& complaints) {
  File top{root / "CMakeLists.txt", "CMakeLists.txt", "", lines_of(root / "CMakeLists.txt")};
  const std::vector<std::string> words = cmake_words(top);
  std::set<std::string> folders, built;
  for (const File& file : files) {
    folders.insert(file.folder);
    if (file.name == "src/" + file.folder + "/CMakeLists.txt") built.insert(file.folder);
  }
  for (const File& file : files) {
    const auto row = kRooms.find(file.folder);
    const std::string room = testing::room_of(file.name);
    if (row != kRooms.end() && (file.is(".h") || file.is(".cc")) && room != "testing" &&
        std::find(row->second.begin(), row->second.end(), room) == row->second.end())
      complaints.push_back(file.name + ": room " + room +
                           " has no place in kRooms of src/base/arrows_test.cc");
  }
  for (const std::string& folder : folders) {
    if (!kArrows.contains(folder))
      complaints.push_back("src/" + folder + ": no arrow leads here; see src/base/arrows_test.cc");
    if (built.contains(folder) && std::find(words.begin(), words.end(), folder) == words.end())
      complaints.push_back("src/" + folder +
                           ": is not in the list of folders in CMakeLists.txt, so nothing builds it");
  }
}

// All that is wrong with the tree below `root`, in words.
Complaints complaints_about(const fs::path& root) {
  Complaints complaints;
  const std::vector<File> files = files_under(root);
  check_folders(root, files, complaints);
  check_lists(files, complaints);
  for (const File& file : files) {
    if (file.is(".h") || file.is(".cc")) {
      check_includes(file, complaints);
      check_size(file, complaints);
    }
    if (file.is("CMakeLists.txt")) check_links(file, complaints);
    if (file.is(".h")) check_header(file, complaints);
    check_words(file, complaints);
  }
  return complaints;
}

TEST(Arrows, ThisTreeIsInOrder) {
  const fs::path root = source_path();
  EXPECT_GT(files_under(root).size(), 10u) << "looked in the wrong place: " << root;
  EXPECT_THAT(complaints_about(root), ::testing::IsEmpty());
}

TEST(Arrows, PointDown) {
  EXPECT_TRUE(may_use("cli", "base"));
  EXPECT_TRUE(may_use("runtime", "tensor"));
  EXPECT_TRUE(may_use("cluster", "kernels"));
  EXPECT_FALSE(may_use("base", "tensor"));
  EXPECT_FALSE(may_use("cluster", "model"));
  EXPECT_FALSE(may_use("model", "cluster"));
  EXPECT_FALSE(may_use("server", "cli"));
}

// A small tree without fault; each test breaks one thing.
struct TidyTest : ::testing::Test {
  TidyTest() {
    tree.write("CMakeLists.txt", "foreach(module base tensor model)\n");
    tree.write("src/base/CMakeLists.txt", "butterfly_module(base\n  SOURCES good.cc sub/deep.cc)\n");
    tree.write("src/base/good.h", kHeader);
    tree.write("src/base/good.cc",
               "#include \"base/good.h\"\n#include <vector>\n#include \"hwy/highway.h\"\n");
    tree.write("src/base/sub/deep.cc", "#include \"base/good.h\"\n");
  }
  Complaints complaints() const { return complaints_about(tree.path()); }
  static constexpr const char* kHeader = "// What it is for.\n#pragma once\n";
  testing::TempDir tree;
};

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(TidyTest, GoodTreeHasNoComplaints) { EXPECT_THAT(complaints(), ::testing::IsEmpty()); }

TEST_F(TidyTest, IncludeAgainstTheArrows) {
  tree.write("src/base/good.cc", "#include \"base/good.h\"\n#include \"tensor/tensor.h\"\n");
  EXPECT_THAT(complaints(),
              ElementsAre(AllOf(StartsWith("src/base/good.cc:2: "), HasSubstr("base may not use tensor"))));
}

TEST_F(TidyTest, IncludeAcrossTheTwoBranches) {
  tree.write("src/model/CMakeLists.txt", "butterfly_module(model SOURCES arch/m.cc DEPS butterfly::base)\n");
  tree.write("src/model/arch/m.cc", "  #  include \"cluster/node/id.h\"\n");
  EXPECT_THAT(complaints(), ElementsAre(HasSubstr("model may not use cluster")));
}

TEST_F(TidyTest, RoomThatLooksUp) {
  tree.write("CMakeLists.txt", "foreach(module base graph)\n");
  tree.write("src/graph/CMakeLists.txt",
             "butterfly_module(graph SOURCES a.cc ops/b.cc attic/c.cc TESTS a_test.cc)\n");
  tree.write("src/graph/ops/b.cc", "#include \"graph/node.h\"\n");
  tree.write("src/graph/a.cc", "#include \"graph/ops/b.h\"\n#include \"graph/testing/c.h\"\n");
  tree.write("src/graph/a_test.cc", "#include \"graph/ops/b.h\"\n#include \"graph/testing/c.h\"\n");
  tree.write("src/graph/attic/c.cc", "\n");
  EXPECT_THAT(complaints(),
              ElementsAre(HasSubstr("room attic has no place"), HasSubstr("room . stands below ops"),
                          HasSubstr("which is for tests")));
}

TEST_F(TidyTest, IncludeWithoutFolder) {
  tree.write("src/base/good.cc", "#include \"good.h\"\n");
  EXPECT_THAT(complaints(), ElementsAre(HasSubstr("write \"base/good.h\"")));
}

TEST_F(TidyTest, LinkAgainstTheArrows) {
  tree.write("src/base/CMakeLists.txt",
             "butterfly_module(base SOURCES good.cc sub/deep.cc # butterfly::nn\n DEPS butterfly::hwy "
             "butterfly::model)\n");
  EXPECT_THAT(complaints(), ElementsAre(HasSubstr("links butterfly::model, but base may not use model")));
}

TEST_F(TidyTest, SourceInNoList) {
  for (const char* name : {"lost.cc", "lost_test.cc", "lost_bench.cc", "lost_fuzz.cc", "sub/good.cc"})
    tree.write(std::string("src/base/") + name, "\n");
  tree.write("src/base/CMakeLists.txt", "butterfly_module(base\n SOURCES good.cc sub/deep.cc) # lost.cc\n");
  EXPECT_THAT(complaints(),
              ElementsAre(HasSubstr("src/base/lost.cc: is in no list"), HasSubstr("src/base/lost_bench.cc"),
                          HasSubstr("src/base/lost_fuzz.cc"), HasSubstr("src/base/lost_test.cc"),
                          HasSubstr("src/base/sub/good.cc")));
}

TEST_F(TidyTest, FolderThatNobodyBuildsOrKnows) {
  tree.write("src/nn/CMakeLists.txt", "butterfly_module(nn)\n");
  tree.write("src/utils/x.h", kHeader);
  EXPECT_THAT(complaints(), ElementsAre(HasSubstr("src/nn: is not in the list of folders"),
                                        HasSubstr("src/utils: no arrow leads here")));
}

TEST_F(TidyTest, LongFile) {
  std::string text = "#include \"base/good.h\"\n";
  for (int i = 1; i < 800; ++i) text += "\n";
  tree.write("src/base/good.cc", text);
  EXPECT_THAT(complaints(), ::testing::IsEmpty());
  tree.write("src/base/good.cc", text + "\n");
  EXPECT_THAT(complaints(), ElementsAre(HasSubstr("has 801 lines")));
}

TEST_F(TidyTest, LongTableOfDataIsFine) {
  tree.write("src/base/unicode_data.h", kHeader + std::string(2000, '\n'));
  EXPECT_THAT(complaints(), ::testing::IsEmpty());
}

TEST_F(TidyTest, HeaderWithoutPurposeOrGuard) {
  tree.write("src/base/good.h", "#pragma once\n");
  EXPECT_THAT(complaints(), ElementsAre(HasSubstr("should begin with")));
  tree.write("src/base/good.h", "// For something.\n");
  EXPECT_THAT(complaints(), ElementsAre(HasSubstr("no #pragma once")));
  tree.write("src/base/good.h", "");
  EXPECT_THAT(complaints(), ::testing::SizeIs(2));
}

TEST_F(TidyTest, UnfinishedBusiness) {
  const std::string word = std::string("TO") + "DO";
  tree.write("src/base/README.md", "all done\n" + word + ": write this\n");
  tree.write("src/base/sub/deep.cc", "int METHOD" + word + ";  // part of another word\n");
  EXPECT_THAT(complaints(), ElementsAre(AllOf(StartsWith("src/base/README.md:2: "), HasSubstr(word))));
}

}  // namespace
}  // namespace butterfly
