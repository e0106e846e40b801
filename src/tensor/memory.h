// Aligned memory from the system, for Buffer and TensorPool. No counting, no sharing: see buffer.h for that.
#pragma once
#include <cstddef>

#include "tensor/huge_pages.h"

namespace butterfly {

class Buffer;

enum class Contents { kZeroed, kAnything };

// 64-byte aligned; from kMapFrom bytes on by mmap, aligned to 2 MiB with huge pages asked for, now or later.
// Asking for 0 bytes gives a unique address too. Null when the system has none.
std::byte* allocate_memory(size_t bytes, Contents contents,
                           huge_pages::When huge = huge_pages::When::kAtOnce);
// `bytes` as it was asked for.
void free_memory(std::byte* data, size_t bytes);

// As Buffer::allocate(), for memory that is filled once and read for long: huge pages come after it is
// filled.
Buffer allocate_lasting(size_t bytes);

inline constexpr size_t kMapFrom = size_t{4} << 20;

// Brings in the pages of memory that will be read, or written, at once: one call instead of a fault for each
// page. A hint that changes nothing; only whole pages inside [data, data + bytes).
void bring_in_for_reading(const std::byte* data, size_t bytes);
void bring_in_for_writing(std::byte* data, size_t bytes);

// Under the address sanitizer, touching forbidden memory is reported; otherwise these do nothing.
void forbid_access(const std::byte* data, size_t bytes);
void permit_access(const std::byte* data, size_t bytes);

}  // namespace butterfly
