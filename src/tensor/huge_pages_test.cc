// Memory that becomes huge pages in the background: contents stay, and it may be freed at any time.
#include "tensor/huge_pages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tensor/buffer.h"
#include "tensor/memory.h"

namespace butterfly::huge_pages {
namespace {

constexpr size_t kBytes = size_t{8} << 20;
constexpr std::chrono::minutes kLong{2};

struct Chosen {
  explicit Chosen(Policy policy) { choose(policy); }
  ~Chosen() { choose(Policy::kAsked); }
};

void fill(const Buffer& buffer, uint32_t seed) {
  auto* words = reinterpret_cast<uint32_t*>(buffer.data());
  for (size_t i = 0; i < buffer.size() / 4; ++i) words[i] = static_cast<uint32_t>(i) * 2654435761u + seed;
}
bool filled(const Buffer& buffer, uint32_t seed) {
  const auto* words = reinterpret_cast<const uint32_t*>(buffer.data());
  for (size_t i = 0; i < buffer.size() / 4; ++i)
    if (words[i] != static_cast<uint32_t>(i) * 2654435761u + seed) return false;
  return true;
}

// Kilobytes of huge pages in the mapping that holds `data` (and perhaps its neighbours), as the kernel tells.
size_t huge_kilobytes(const std::byte* data) {
  std::ifstream smaps("/proc/self/smaps");
  const auto address = reinterpret_cast<uintptr_t>(data);
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream head(line);
    if (head >> std::hex >> begin >> dash >> end && dash == '-') inside = begin <= address && address < end;
    size_t kilobytes = 0;
    if (inside && std::sscanf(line.c_str(), "AnonHugePages: %zu", &kilobytes) == 1) return kilobytes;
  }
  return 0;
}

TEST(HugePages, EveryPolicyGivesZeroedMemoryThatKeepsItsContents) {
  for (Policy policy : {Policy::kAsked, Policy::kNow, Policy::kLater, Policy::kOff}) {
    const Chosen chosen(policy);
    const Buffer buffer = allocate_lasting(kBytes + 12345);
    for (size_t i = 0; i < buffer.size(); i += 1000) ASSERT_EQ(buffer.data()[i], std::byte{0}) << i;
    fill(buffer, 1);
    EXPECT_TRUE(wait_settled(kLong));
    EXPECT_TRUE(filled(buffer, 1));
  }
}

TEST(HugePages, SmallPagesBecomeHugeOnes) {
  const Buffer buffer = allocate_lasting(kBytes);
  fill(buffer, 2);
  ASSERT_TRUE(wait_settled(kLong));
  EXPECT_TRUE(filled(buffer, 2));
  if (huge_kilobytes(buffer.data()) == 0) GTEST_SKIP() << "this system gives no huge pages";
  EXPECT_GE(huge_kilobytes(buffer.data()), 2048u);
}

TEST(HugePages, BuffersMayDieWhileTheyWait) {
  const Chosen chosen(Policy::kLater);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 3; ++t)
    threads.emplace_back([t] {
      for (uint32_t i = 0; i < 8; ++i) {
        const Buffer kept = Buffer::allocate(kBytes);
        fill(kept, 100 * t + i);
        Buffer::allocate(kBytes);  // dies at once, untouched
        if (i % 4 == 3) wait_settled(std::chrono::milliseconds(5));
        EXPECT_TRUE(filled(kept, 100 * t + i));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(wait_settled(kLong));
}

TEST(HugePages, NothingToDoIsSettled) { EXPECT_TRUE(wait_settled(std::chrono::milliseconds(0))); }

}  // namespace
}  // namespace butterfly::huge_pages
