// The files of the checkout's src/ as text, for tests that keep the tree in order. Only for tests.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace butterfly::testing {

struct SourceFile {
  std::filesystem::path path;
  std::string name;                // for people: "src/base/log.cc"
  std::string folder;              // "base"
  std::vector<std::string> lines;  // of headers, sources, pages and lists; of no other file
  bool is(std::string_view ending) const { return name.ends_with(ending); }
  bool is_test() const;  // a test, a benchmark, a fuzzer, or what only these use
};

std::vector<std::string> lines_of(const std::filesystem::path& file);

// Everything people write below `root`/src, in a fixed order.
std::vector<SourceFile> files_under(const std::filesystem::path& root);

// The sub-folder that a file stands in: "ops" of "src/graph/ops/add.cc", "." of "src/graph/graph.cc".
std::string room_of(const std::string& name);

// What a line includes in quotes, if it does.
std::optional<std::string> quoted_include(std::string_view line);

// Words of a CMakeLists.txt without comments.
std::vector<std::string> cmake_words(const SourceFile& file);

}  // namespace butterfly::testing
