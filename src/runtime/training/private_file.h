// A file that only this user may read, in a folder of its own that ends with the object.
#pragma once
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/error.h"

namespace butterfly::runtime {

// The place for it; who has it writes. Immutable.
class PrivateFile {
 public:
  explicit PrivateFile(const std::string& name) {
    std::string pattern = (std::filesystem::temp_directory_path() / "butterfly-train-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)  // with mode 0700
      fail(Errc::kIo, "{}: cannot make a folder: {}", pattern, std::strerror(errno));
    folder_ = pattern;
    path_ = folder_ / name;
  }
  ~PrivateFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  PrivateFile(const PrivateFile&) = delete;
  PrivateFile& operator=(const PrivateFile&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path folder_, path_;
};

}  // namespace butterfly::runtime
