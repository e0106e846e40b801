#include "base/private_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/testing/temp_dir.h"

namespace butterfly {
namespace {

using ::testing::HasSubstr;

TEST(PrivateFolder, IsMadeForItsOwnerOnly) {
  const testing::TempDir dir;
  make_private_folder(dir / "a" / "b");
  struct stat about {};
  ASSERT_EQ(::stat((dir / "a" / "b").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0700u);
  make_private_folder(dir / "a" / "b");  // again
}

TEST(PrivateFolder, RefusesWhatOthersCouldHavePrepared) {
  const testing::TempDir dir;
  ASSERT_EQ(::mkdir((dir / "open").c_str(), 0700), 0);
  ASSERT_EQ(::chmod((dir / "open").c_str(), 0777), 0);
  EXPECT_THAT(why_not_private(dir / "open"), HasSubstr("others may write"));
  EXPECT_THROW(make_private_folder(dir / "open"), Error);
  ASSERT_EQ(::symlink("/tmp", (dir / "link").c_str()), 0);
  EXPECT_THAT(why_not_private(dir / "link"), HasSubstr("is a link"));
  EXPECT_THROW(make_private_folder(dir / "link"), Error);
  EXPECT_THAT(why_not_private(dir / "none"), HasSubstr("No such file"));
  if (::geteuid() != 0) {
    EXPECT_THAT(why_not_private("/usr"), HasSubstr("belongs to user 0"));
  }
}

}  // namespace
}  // namespace butterfly
