#include "tensor/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/mapped_file.h"

namespace butterfly {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMapFrom = size_t{4} << 20;

[[noreturn]] void out_of_memory(size_t bytes) {
  fail(Errc::kOutOfMemory, "[buffer] the system has no {} bytes of memory to give", bytes);
}

// Fresh zero pages from the system, aligned to a huge page so that the kernel can use them from the first
// byte.
std::byte* map_pages(size_t size) {
  const auto with_slack = checked_add(size, kHugePage);
  if (!with_slack) return nullptr;
  void* raw = mmap(nullptr, *with_slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(raw);
  auto* aligned = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(begin), kHugePage));
  if (aligned != begin) munmap(begin, static_cast<size_t>(aligned - begin));
  std::byte* const end = begin + *with_slack;
  if (end != aligned + size) munmap(aligned + size, static_cast<size_t>(end - (aligned + size)));
  madvise(aligned, size, MADV_HUGEPAGE);
  return aligned;
}

}  // namespace

Buffer Buffer::allocate(size_t bytes) {
  Buffer buffer;
  buffer.size_ = bytes;
  buffer.writable_ = true;
  if (bytes >= kMapFrom) {
    const auto size = checked_round_up(bytes, kHugePage);
    std::byte* data = size ? map_pages(*size) : nullptr;
    if (data == nullptr) out_of_memory(bytes);
    buffer.data_ = std::shared_ptr<std::byte>(data, [size = *size](std::byte* p) { munmap(p, size); });
    return buffer;
  }
  const size_t size = bytes == 0 ? kAlignment : round_up(bytes, kAlignment);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
  if (data == nullptr) out_of_memory(bytes);
  std::memset(data, 0, size);
  buffer.data_ = std::shared_ptr<std::byte>(data, [](std::byte* p) { std::free(p); });
  return buffer;
}

Buffer Buffer::mapped(std::shared_ptr<MappedFile> file, size_t offset, size_t bytes) {
  const size_t size = file->bytes().size();
  BF_CHECK(offset <= size && bytes <= size - offset)
      << file->path() << ": " << offset << " + " << bytes << " of " << size;
  Buffer buffer;
  buffer.size_ = bytes;
  auto* data = const_cast<std::byte*>(file->bytes().data()) + offset;
  buffer.data_ = std::shared_ptr<std::byte>(std::move(file), data);
  return buffer;
}

Buffer Buffer::adopt(std::byte* data, size_t bytes, std::function<void(std::byte*)> release) {
  Buffer buffer;
  buffer.size_ = bytes;
  buffer.writable_ = true;
  buffer.data_ = std::shared_ptr<std::byte>(data, std::move(release));
  return buffer;
}

}  // namespace butterfly
