#include "cluster/identity/state_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/secret.h"

namespace butterfly::cluster {
namespace {

constexpr Duration kLockWait = std::chrono::seconds(5);
constexpr mode_t kOthers = 077;

// A file descriptor for one function.
class File {
 public:
  File(const std::filesystem::path& path, int flags, mode_t mode = 0)
      : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_; }
  [[noreturn]] void refused(std::string_view what) const {
    fail(Errc::kIo, "{}: cannot {}: {}", path_.string(), what, std::strerror(errno));
  }

 private:
  std::filesystem::path path_;
  int fd_;
};

void check_private(const std::filesystem::path& path, const struct stat& found) {
  if (found.st_uid != geteuid())
    fail(Errc::kInvalidArgument, "{}: belongs to user {}, this program runs as user {}", path.string(),
         found.st_uid, geteuid());
  if ((found.st_mode & kOthers) != 0)
    fail(Errc::kInvalidArgument, "{}: others may use it (mode {:o}); run: chmod {} {}", path.string(),
         found.st_mode & 0777, S_ISDIR(found.st_mode) ? "700" : "600", path.string());
}

void check_folder(const std::filesystem::path& path) {
  struct stat found;
  if (::stat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) fail(Errc::kNotFound, "{}: is not there", path.string());
    fail(Errc::kIo, "{}: {}", path.string(), std::strerror(errno));
  }
  if (!S_ISDIR(found.st_mode)) fail(Errc::kInvalidArgument, "{}: is not a folder", path.string());
  check_private(path, found);
}

}  // namespace

StateFolder StateFolder::make(const std::filesystem::path& path) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    fail(Errc::kIo, "{}: cannot make the folder: {}", path.string(), std::strerror(errno));
  return open(path);
}

StateFolder StateFolder::open(const std::filesystem::path& path) {
  check_folder(path);
  return StateFolder(path);
}

std::filesystem::path StateFolder::default_path() {
  const auto variable = [](const char* name) -> std::filesystem::path {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (const auto own = variable("BUTTERFLY_STATE"); !own.empty()) return own;
  if (const auto state = variable("XDG_STATE_HOME"); !state.empty()) return state / "butterfly";
  if (const auto home = variable("HOME"); !home.empty()) return home / ".local" / "state" / "butterfly";
  fail(Errc::kInvalidArgument, "no folder for the node's state: set BUTTERFLY_STATE or HOME");
}

bool StateFolder::has(std::string_view name) const {
  struct stat found;
  return ::stat((path_ / name).c_str(), &found) == 0;
}

std::string StateFolder::read(std::string_view name, size_t bytes_max) const {
  const std::filesystem::path path = path_ / name;
  const File file(path, O_RDONLY | O_NOFOLLOW);
  if (file.fd() < 0 && errno == ENOENT) fail(Errc::kNotFound, "{}: is not there", path.string());
  struct stat found;
  if (file.fd() < 0 || ::fstat(file.fd(), &found) != 0) file.refused("open");
  check_private(path, found);
  std::string contents;
  char part[4096];
  for (;;) {
    const ssize_t count = ::read(file.fd(), part, sizeof part);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) file.refused("read");
    if (count == 0) return contents;
    contents.append(part, static_cast<size_t>(count));
    if (contents.size() > bytes_max)
      fail(Errc::kCorrupt, "{}: has more than {} bytes", path.string(), bytes_max);
  }
}

void StateFolder::write(std::string_view name, std::string_view contents) const {
  const std::filesystem::path path = path_ / name;
  const std::filesystem::path part = path.string() + "." + random_hex(8) + ".part";
  {
    const File file(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (file.fd() < 0) file.refused("write");
    const auto give_up = [&](std::string_view what) {
      const int why = errno;
      ::unlink(part.c_str());
      errno = why;
      file.refused(what);
    };
    for (size_t done = 0; done < contents.size();) {
      const ssize_t count = ::write(file.fd(), contents.data() + done, contents.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) give_up("write");
      done += static_cast<size_t>(count);
    }
    if (::fsync(file.fd()) != 0) give_up("write");
    if (::rename(part.c_str(), path.c_str()) != 0) give_up("rename");
  }
  const File folder(path_, O_RDONLY | O_DIRECTORY);
  if (folder.fd() < 0 || ::fsync(folder.fd()) != 0) folder.refused("write");
}

void StateFolder::remove(std::string_view name) const {
  if (::unlink((path_ / name).c_str()) != 0 && errno != ENOENT)
    fail(Errc::kIo, "{}: cannot remove: {}", (path_ / name).string(), std::strerror(errno));
}

StateFolder::Lock::Lock(const StateFolder& folder) {
  const std::filesystem::path path = folder.path() / "lock";
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd_ < 0) fail(Errc::kIo, "{}: cannot open: {}", path.string(), std::strerror(errno));
  // Of the open file, so threads of one process exclude each other too. flock() itself knows no deadline.
  const Deadline deadline(SystemClock::instance(), kLockWait);
  while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int why = errno;
    if ((why != EWOULDBLOCK && why != EINTR) || deadline.expired()) {
      ::close(fd_);
      if (why != EWOULDBLOCK && why != EINTR)
        fail(Errc::kIo, "{}: cannot lock: {}", path.string(), std::strerror(why));
      fail(Errc::kTimeout, "{}: another process has held it for five seconds", path.string());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

StateFolder::Lock::~Lock() { ::close(fd_); }

}  // namespace butterfly::cluster
