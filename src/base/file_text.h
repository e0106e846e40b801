// Text of small files.
#pragma once
#include <filesystem>
#include <string>

namespace butterfly {

// All of it. Throws Error kNotFound, which names the file, where it cannot be opened.
std::string read_text_file(const std::filesystem::path& path);

// Its first line; empty where there is none. For what the system tells in files (/proc, /sys).
std::string first_line_of(const std::filesystem::path& path);

}  // namespace butterfly
