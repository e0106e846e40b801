#include "cli/nodes/train_control.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/file_text.h"
#include "train/run_files.h"

namespace butterfly::cli {
namespace {

constexpr const char* kLockFile = train::kRunLockFile;  // locked by the process that trains
constexpr const char* kWishFile = train::kRunWishFile;
constexpr std::chrono::milliseconds kLookEvery{100};

// -1: another process has it.
int try_lock(const std::filesystem::path& path, int flags) {
  const int file = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (file < 0) return -1;
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  ::close(file);
  return -1;
}

std::string word_in(const std::filesystem::path& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

}  // namespace

RunControl::RunControl(const std::filesystem::path& folder) : folder_(folder) {
  std::filesystem::create_directories(folder);
  const std::filesystem::path path = folder / kLockFile;
  lock_ = try_lock(path, O_RDWR | O_CREAT);
  if (lock_ < 0 && std::filesystem::exists(path))
    fail(Errc::kInvalidArgument, "{}: process {} trains here; wait for it, or choose another output_dir",
         folder.string(), word_in(path));
  if (lock_ < 0) fail(Errc::kIo, "{}: {}", path.string(), std::strerror(errno));
  const std::string number = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock_, 0) != 0 || ::write(lock_, number.data(), number.size()) < 0)
    fail(Errc::kIo, "{}: {}", path.string(), std::strerror(errno));
  std::error_code ignored;  // of a run before
  std::filesystem::remove(folder / kWishFile, ignored);
}

RunControl::~RunControl() {
  std::error_code ignored;
  std::filesystem::remove(folder_ / kWishFile, ignored);
  std::filesystem::remove(folder_ / kLockFile, ignored);
  ::close(lock_);
}

RunControl::Wish RunControl::wish() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_at_ < kLookEvery) return wish_;
  looked_at_ = now;
  const std::string word = word_in(folder_ / kWishFile);
  wish_ = word == "pause" ? Wish::kPause : word == "cancel" ? Wish::kCancel : Wish::kNone;
  return wish_;
}

std::string control_run(const std::filesystem::path& folder, const std::string& word) {
  const int lock = try_lock(folder / kLockFile, O_RDWR);
  if (lock >= 0) ::close(lock);
  if (lock >= 0 || !std::filesystem::exists(folder / kLockFile))
    fail(Errc::kNotFound, "{}: no run goes on here; --output_dir names its folder", folder.string());
  const std::filesystem::path path = folder / kWishFile, fresh = path.string() + ".new";
  std::ofstream out(fresh, std::ios::binary);
  out << word << "\n";
  out.close();
  if (!out) fail(Errc::kIo, "{}: cannot be written", fresh.string());
  std::filesystem::rename(fresh, path);
  if (word == "pause") return "it stands still after this step; 'train resume' goes on\n";
  if (word == "cancel") return "it saves a checkpoint after this step and ends\n";
  return "it goes on\n";
}

}  // namespace butterfly::cli
