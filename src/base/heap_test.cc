#include "base/heap.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>
#include <latch>
#include <memory>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "base/cpu.h"

namespace butterfly {
namespace {

#ifdef __GLIBC__

size_t arenas() {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = ::open_memstream(&text, &size);
  ::malloc_info(0, out);
  std::fclose(out);
  const std::string all(text, size);
  std::free(text);
  const std::regex heap("<heap nr");
  return static_cast<size_t>(std::distance(std::sregex_iterator(all.begin(), all.end(), heap), {}));
}

// Threads that are there at the same time would each get an arena of its own. In a process of its own: what
// is set holds for all of it, and others have made arenas before.
TEST(HeapDeathTest, ThreadsShareAsManyArenasAsThereAreCpus) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        bound_heap();
        const size_t bound = std::max<size_t>(allowed_cpus().size(), 2);
        const size_t count = 4 * bound;
        std::latch all_there(static_cast<ptrdiff_t>(count));
        std::vector<std::thread> threads;
        for (size_t i = 0; i < count; ++i)
          threads.emplace_back([&] {
            const auto some = std::make_unique<char[]>(5000);
            all_there.arrive_and_wait();
          });
        for (std::thread& thread : threads) thread.join();
        std::exit(arenas() <= bound ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

size_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::stoul(line.substr(8));
  return 0;
}

// What stays between them keeps the heap's end where it is.
TEST(Heap, WhatIsFreeBetweenWhatStaysGoesBack) {
  std::vector<std::unique_ptr<char[]>> large, small;
  for (int i = 0; i < 400; ++i) {
    large.push_back(std::make_unique<char[]>(100'000));
    small.push_back(std::make_unique<char[]>(100));
  }
  const size_t full = resident_kib();
  large.clear();
  return_free_heap();
  EXPECT_LT(resident_kib() + 30'000, full);
}

#endif

}  // namespace
}  // namespace butterfly
