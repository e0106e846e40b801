// Memory that lies in a file: for arrays that are larger than a machine's memory and seldom touched, such as
// the state of a training run whose layers learn elsewhere. The system writes pages back when others need the
// room.
#pragma once
#include <filesystem>

#include "tensor/buffer.h"

namespace butterfly {

// Zeroed, in a file of the folder that has no name and ends with the buffer. Throws Error kIo when the disk
// has not so much room.
Buffer allocate_in_file(const std::filesystem::path& folder, size_t bytes);

// While it lives, buffers from kFileMemoryFrom bytes on that this thread allocates (Buffer::allocate(),
// allocate_lasting()) lie in files of the folder. Scopes may lie inside one another. Of one thread.
class FileMemoryScope {
 public:
  explicit FileMemoryScope(std::filesystem::path folder);
  ~FileMemoryScope();
  FileMemoryScope(const FileMemoryScope&) = delete;
  FileMemoryScope& operator=(const FileMemoryScope&) = delete;

  // Of the scope that this thread is in; null: none.
  static const std::filesystem::path* folder();

 private:
  const std::filesystem::path folder_;
  const FileMemoryScope* const outer_;
};

inline constexpr size_t kFileMemoryFrom = size_t{64} << 10;

}  // namespace butterfly
