#include "base/private_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace butterfly {

std::string why_not_private(const std::filesystem::path& folder) {
  struct stat about {};
  // Not stat(): a link that somebody else made would lead wherever he likes.
  if (::lstat(folder.c_str(), &about) != 0)
    return fmt::format("{}: {}", folder.string(), std::strerror(errno));
  if (S_ISLNK(about.st_mode)) return fmt::format("{}: is a link, expected a folder", folder.string());
  if (!S_ISDIR(about.st_mode)) return fmt::format("{}: is not a folder", folder.string());
  if (about.st_uid != ::geteuid())
    return fmt::format("{}: belongs to user {}, not to {}", folder.string(), about.st_uid, ::geteuid());
  if ((about.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fmt::format("{}: others may write into it (mode {:o}); chmod go-w it", folder.string(),
                       about.st_mode & 07777);
  return {};
}

void make_private_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::create_directories(folder.parent_path(), ignored);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    fail(Errc::kIo, "{}: cannot make the folder: {}", folder.string(), std::strerror(errno));
  if (const std::string why = why_not_private(folder); !why.empty()) fail(Errc::kInvalidArgument, "{}", why);
}

}  // namespace butterfly
