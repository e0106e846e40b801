#include "train/checkpoint/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace butterfly::train {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void io_error(const char* call, const fs::path& path, int code) {
  fail(Errc::kIo, "{}: {}: {}", path.string(), call, std::strerror(code));
}

// Closes on all paths; close() itself reports.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags)
      : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) io_error("open", path, errno);
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t done = ::write(fd_, bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) io_error("write", path_, errno);
      bytes = bytes.subspan(static_cast<size_t>(done));
    }
  }
  uint64_t size() const {
    struct stat info;
    if (::fstat(fd_, &info) != 0) io_error("stat", path_, errno);
    return static_cast<uint64_t>(info.st_size);
  }
  void read(uint64_t offset, std::span<std::byte> into) {
    while (!into.empty()) {
      const ssize_t got = ::pread(fd_, into.data(), into.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) io_error("read", path_, errno);
      if (got == 0) fail(Errc::kIo, "{}: ends {} bytes too early", path_.string(), into.size());
      offset += static_cast<uint64_t>(got);
      into = into.subspan(static_cast<size_t>(got));
    }
  }
  void sync() {
    if (::fsync(fd_) != 0) io_error("fsync", path_, errno);
  }
  void close() {
    const int fd = std::exchange(fd_, -1);
    if (::close(fd) != 0) io_error("close", path_, errno);
  }

 private:
  fs::path path_;
  int fd_;
};

class RealOutFile final : public OutFile {
 public:
  explicit RealOutFile(const fs::path& path) : file_(path, O_WRONLY | O_CREAT | O_TRUNC) {}
  void write(std::span<const std::byte> bytes) override { file_.write(bytes); }
  void sync() override { file_.sync(); }
  void close() override { file_.close(); }

 private:
  Descriptor file_;
};

class RealInFile final : public InFile {
 public:
  explicit RealInFile(const fs::path& path) : file_(path, O_RDONLY) {}
  uint64_t size() const override { return file_.size(); }
  void read(uint64_t offset, std::span<std::byte> into) override { file_.read(offset, into); }

 private:
  Descriptor file_;
};

class RealFileSystem final : public FileSystem {
 public:
  std::unique_ptr<OutFile> create(const fs::path& path) override {
    return std::make_unique<RealOutFile>(path);
  }
  void make_folder(const fs::path& path) override {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) io_error("mkdir", path, error.value());
  }
  void rename(const fs::path& from, const fs::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) io_error("rename", from, errno);
  }
  void sync_folder(const fs::path& path) override { Descriptor(path, O_RDONLY | O_DIRECTORY).sync(); }
  void remove_all(const fs::path& path) override {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) io_error("remove", path, error.value());
  }
  bool exists(const fs::path& path) override { return fs::exists(path); }
  std::vector<std::string> list(const fs::path& folder) override {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
      names.push_back(it->path().filename().string());
    if (error) io_error("read folder", folder, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }
  std::unique_ptr<InFile> open(const fs::path& path) override { return std::make_unique<RealInFile>(path); }
};

}  // namespace

FileSystem& real_file_system() {
  static RealFileSystem files;
  return files;
}

}  // namespace butterfly::train
