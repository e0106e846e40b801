#include "tensor/memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/checked.h"
#include "tensor/buffer.h"

#ifndef MADV_POPULATE_READ  // Linux 5.14
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace butterfly {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPage = 4096;  // rounding only: a system with larger pages rounds further itself

// Takes 2 MiB more than needed and gives back what lies outside the aligned part.
std::byte* map_pages(size_t bytes, huge_pages::When huge) {
  const auto size = checked_round_up(bytes, kPage);
  const auto with_slack = size ? checked_add(*size, kHugePage) : std::nullopt;
  if (!with_slack) return nullptr;
  void* raw = mmap(nullptr, *with_slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(raw);
  const size_t before =
      round_up(reinterpret_cast<uintptr_t>(begin), kHugePage) - reinterpret_cast<uintptr_t>(begin);
  if (before > 0) munmap(begin, before);
  if (before < kHugePage) munmap(begin + before + *size, kHugePage - before);
  huge_pages::prepare(begin + before, *size, huge);
  return begin + before;
}

void advise_whole_pages(const std::byte* data, size_t bytes, int advice) {
  const auto begin = round_up(reinterpret_cast<uintptr_t>(data), kPage);
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes) / kPage * kPage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

}  // namespace

std::byte* allocate_memory(size_t bytes, Contents contents, huge_pages::When huge) {
  if (bytes >= kMapFrom) return map_pages(bytes, huge);  // fresh pages are zero
  const size_t size = bytes == 0 ? kAlignment : round_up(bytes, kAlignment);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
  if (data != nullptr && contents == Contents::kZeroed) std::memset(data, 0, size);
  return data;
}

void free_memory(std::byte* data, size_t bytes) {
  if (bytes >= kMapFrom) {
    huge_pages::forget(data);
    munmap(data, round_up(bytes, kPage));
  } else {
    std::free(data);
  }
}

void bring_in_for_reading(const std::byte* data, size_t bytes) {
  advise_whole_pages(data, bytes, MADV_POPULATE_READ);
}
void bring_in_for_writing(std::byte* data, size_t bytes) {
  advise_whole_pages(data, bytes, MADV_POPULATE_WRITE);
}

#ifdef __SANITIZE_ADDRESS__
void forbid_access(const std::byte* data, size_t bytes) { ASAN_POISON_MEMORY_REGION(data, bytes); }
void permit_access(const std::byte* data, size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(data, bytes); }
#else
void forbid_access(const std::byte*, size_t) {}
void permit_access(const std::byte*, size_t) {}
#endif

}  // namespace butterfly
