#include "base/file_text.h"

#include <fstream>
#include <iterator>

#include "base/error.h"

namespace butterfly {

std::string read_text_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(Errc::kNotFound, "{}: cannot be opened", path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string first_line_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace butterfly
