// The text of a whole file.
#pragma once
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/error.h"

namespace butterfly::train {

// Throws Error kNotFound naming the file.
inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(Errc::kNotFound, "{}: cannot be opened", path.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace butterfly::train
