#include "base/testing/source_files.h"

#include <algorithm>
#include <fstream>

namespace butterfly::testing {

bool SourceFile::is_test() const {
  return is("_test.cc") || is("_bench.cc") || is("_fuzz.cc") || name.find("/testing/") != std::string::npos;
}

std::string room_of(const std::string& name) {
  const std::filesystem::path path(name);
  return std::distance(path.begin(), path.end()) > 3 ? std::next(path.begin(), 2)->string() : ".";
}

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<SourceFile> files_under(const std::filesystem::path& root) {
  std::vector<SourceFile> files;
  if (!std::filesystem::exists(root / "src")) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "src")) {
    const std::filesystem::path relative = entry.path().lexically_relative(root);
    if (!entry.is_regular_file() || std::distance(relative.begin(), relative.end()) < 3) continue;
    files.push_back({entry.path(), relative.generic_string(), std::next(relative.begin())->string(), {}});
    SourceFile& file = files.back();
    if (file.is(".h") || file.is(".cc") || file.is(".md") || file.is("CMakeLists.txt"))
      file.lines = lines_of(file.path);
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.name < b.name; });
  return files;
}

std::optional<std::string> quoted_include(std::string_view line) {
  const auto skip_blanks = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
  for (const std::string_view word : {"#", "include", "\""}) {
    skip_blanks();
    if (!line.starts_with(word)) return std::nullopt;
    line.remove_prefix(word.size());
  }
  return std::string(line.substr(0, line.find('"')));
}

std::vector<std::string> cmake_words(const SourceFile& file) {
  constexpr const char* kBetween = " \t()\"";
  std::vector<std::string> words;
  for (const std::string& line : file.lines) {
    const std::string code = line.substr(0, line.find('#'));
    for (size_t begin = 0; (begin = code.find_first_not_of(kBetween, begin)) != std::string::npos;) {
      const size_t end = std::min(code.find_first_of(kBetween, begin), code.size());
      words.push_back(code.substr(begin, end - begin));
      begin = end;
    }
  }
  return words;
}

}  // namespace butterfly::testing
