// Whether a model's file, or folder, is the one that it was.
#pragma once
#include <filesystem>
#include <string>

namespace butterfly::server {

// Of each file its name, size, time of change, and samples of its contents, its beginning and end among them:
// equal for the same file, and not for one that was changed. Does not read all of it. Throws Error kIo.
std::string file_fingerprint(const std::filesystem::path& path);

}  // namespace butterfly::server
