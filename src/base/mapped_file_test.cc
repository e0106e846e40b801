#include "base/mapped_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/sigbus_guard.h"
#include "base/testing/temp_dir.h"

namespace butterfly {
namespace {

using ::testing::HasSubstr;

constexpr size_t kBytes = 64 * 1024;

std::optional<Error> error_of(FunctionRef<void()> fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

std::byte read_byte(const MappedFile& file, size_t at) {
  return *static_cast<const volatile std::byte*>(file.bytes().data() + at);
}

struct MappedFileTest : ::testing::Test {
  // Death tests start the program again: the child then has no signal handler from earlier tests.
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  std::shared_ptr<MappedFile> map_and_truncate(const std::string& name = "model.gguf") {
    const auto path = dir.write(name, std::string(kBytes, 'x'));
    auto file = MappedFile::open(path);
    std::filesystem::resize_file(path, 100);
    return file;
  }
  testing::TempDir dir;
};

TEST_F(MappedFileTest, ShowsTheBytesOfTheFile) {
  const auto file = MappedFile::open(dir.write("a", "butterfly"));
  const auto bytes = file->bytes();
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "butterfly");
  EXPECT_EQ(file->path(), dir / "a");
}

TEST_F(MappedFileTest, AFileThatWasReadStaysWhateverHappensToIt) {
  const std::string contents(kBytes, 'x');
  const auto path = dir.write("a", contents);
  const auto file = MappedFile::open(path, FileAccess::kRead);
  std::filesystem::resize_file(path, 100);
  file->will_need(0, kBytes);
  file->done_with(0, kBytes);  // must not lose what cannot be read again
  const auto bytes = file->bytes();
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), contents);
  EXPECT_TRUE(MappedFile::open(dir.write("empty", ""), FileAccess::kRead)->bytes().empty());
  EXPECT_EQ(error_of([&] { MappedFile::open(dir / "none", FileAccess::kRead); })->code(), Errc::kNotFound);
}

TEST_F(MappedFileTest, StaysMappedAfterTheNameIsGone) {
  const auto file = MappedFile::open(dir.write("a", "butterfly"));
  std::filesystem::remove(dir / "a");
  EXPECT_EQ(read_byte(*file, 8), std::byte{'y'});
}

TEST_F(MappedFileTest, EmptyFileHasNoBytes) {
  const auto file = MappedFile::open(dir.write("empty", ""));
  EXPECT_EQ(file->bytes().size(), 0u);
  file->will_need(0, 0);
  file->done_with(0, 0);
}

TEST_F(MappedFileTest, WhatIsNotARegularFileIsRefusedWithItsName) {
  const auto missing = error_of([&] { MappedFile::open(dir / "missing.gguf"); });
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->code(), Errc::kNotFound);
  EXPECT_THAT(missing->what(), HasSubstr("missing.gguf"));

  const auto folder = error_of([&] { MappedFile::open(dir.path()); });
  ASSERT_TRUE(folder);
  EXPECT_EQ(folder->code(), Errc::kIo);
  EXPECT_THAT(folder->what(), HasSubstr("directory"));

  const std::string pipe = dir / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto fifo = error_of([&] { MappedFile::open(pipe); });  // and does not wait for a writer
  ASSERT_TRUE(fifo);
  EXPECT_EQ(fifo->code(), Errc::kIo);
  EXPECT_THAT(fifo->what(), HasSubstr("pipe"));

  EXPECT_EQ(error_of([] { MappedFile::open("/dev/zero"); }).value().code(), Errc::kIo);
}

TEST_F(MappedFileTest, AdviceKeepsTheBytes) {
  const auto file = MappedFile::open(dir.write("a", std::string(kBytes, 'q')));
  file->will_need(10, kBytes - 10);
  file->done_with(0, kBytes);
  for (size_t at = 0; at < kBytes; at += 512) ASSERT_EQ(read_byte(*file, at), std::byte{'q'});
}

TEST_F(MappedFileTest, TruncatedFileIsAnErrorThatNamesItAndTheByte) {
  const auto file = map_and_truncate();
  for (int i = 0; i < 3; ++i) {  // and again: the signal is not left blocked
    const auto error = error_of([&] { MappedFile::guard([&] { read_byte(*file, 20000); }); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Errc::kIo);
    EXPECT_THAT(error->what(), HasSubstr("model.gguf"));
    EXPECT_THAT(error->what(), HasSubstr("byte 20000"));
  }
  MappedFile::guard(
      [&] { EXPECT_EQ(read_byte(*file, 50), std::byte{'x'}); });  // what is left can still be read
}

TEST_F(MappedFileTest, InnermostGuardThrowsAndOuterOnesGoOn) {
  const auto file = map_and_truncate();
  bool went_on = false;
  const auto outer = error_of([&] {
    MappedFile::guard([&] {
      EXPECT_TRUE(error_of([&] { MappedFile::guard([&] { read_byte(*file, 8192); }); }));
      went_on = true;
      read_byte(*file, 12288);  // now the outer one; nothing here owns memory, as leaving does not free it
    });
  });
  EXPECT_TRUE(went_on);
  ASSERT_TRUE(outer);
  EXPECT_THAT(outer->what(), HasSubstr("byte 12288"));
}

TEST_F(MappedFileTest, WhatTheFunctionThrowsPassesThrough) {
  const auto file = map_and_truncate();
  const auto error = error_of([&] {
    MappedFile::guard([&] {
      try {
        MappedFile::guard([] { fail(Errc::kCorrupt, "inside"); });
      } catch (const Error& inner) {
        EXPECT_EQ(inner.code(), Errc::kCorrupt);
      }
      read_byte(*file, 8192);
    });
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Errc::kIo);
}

TEST_F(MappedFileTest, EveryThreadHasItsOwnGuard) {
  constexpr size_t kThreads = 4;
  std::vector<int> caught(kThreads);
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<MappedFile>> files;
  for (size_t i = 0; i < kThreads; ++i) files.push_back(map_and_truncate("file" + std::to_string(i)));
  for (size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        const auto error = error_of([&] { MappedFile::guard([&] { read_byte(*files[i], 30000); }); });
        caught[i] +=
            error && std::string(error->what()).find("file" + std::to_string(i)) != std::string::npos;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(caught, std::vector<int>(kThreads, 50));
}

TEST_F(MappedFileTest, ReadingOutsideAGuardEndsTheProgramAndSaysWhichFile) {
  EXPECT_DEATH(
      {
        const auto file = map_and_truncate();
        MappedFile::guard([] {});
        read_byte(*file, 20000);
      },
      "model.gguf: the file became shorter");
}

// A mapping that is not ours: the handler that was there before gets the signal, guard or not.
TEST_F(MappedFileTest, ForeignAddressesGoToThePreviousHandler) {
  EXPECT_EXIT(
      {
        struct sigaction action {};
        action.sa_handler = [](int) { _exit(42); };
        sigaction(SIGBUS, &action, nullptr);
        const auto ours = MappedFile::open(dir.write("ours", "x"));
        const auto path = dir.write("foreign", std::string(kBytes, 'x'));
        const int fd = open(path.c_str(), O_RDONLY);
        const auto* foreign =
            static_cast<const volatile char*>(mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0));
        std::filesystem::resize_file(path, 0);
        MappedFile::guard([&] { std::fputc(foreign[8192], stdout); });
      },
      ::testing::ExitedWithCode(42), "");
}

TEST_F(MappedFileTest, ForeignFaultWithoutAPreviousHandlerStillEndsTheProgram) {
  EXPECT_DEATH(
      {
        const auto ours = MappedFile::open(dir.write("ours", "x"));
        raise(SIGBUS);
      },
      "");
}

TEST_F(MappedFileTest, TooManyMappingsAreAnErrorAndSlotsComeBack) {
  const auto path = dir.write("a", "x");
  {
    std::vector<std::shared_ptr<MappedFile>> files;
    const auto error = error_of([&] {
      for (size_t i = 0; i <= sigbus::kMappingsMax; ++i) files.push_back(MappedFile::open(path));
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Errc::kIo);
    EXPECT_EQ(files.size(), sigbus::kMappingsMax);
  }
  EXPECT_EQ(MappedFile::open(path)->bytes().size(), 1u);
}

TEST_F(MappedFileTest, AdviceBeyondTheEndIsOurMistake) {
  const auto file = MappedFile::open(dir.write("a", "butterfly"));
  EXPECT_DEATH(file->will_need(5, 5), "5 \\+ 5 of 9");
  EXPECT_DEATH(file->done_with(1, SIZE_MAX), "of 9");
}

}  // namespace
}  // namespace butterfly
