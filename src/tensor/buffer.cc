#include "tensor/buffer.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "tensor/file_memory.h"
#include "tensor/memory.h"

namespace butterfly {
namespace {

struct MappedBlock : BufferBlock {
  std::shared_ptr<MappedFile> file;
};

struct AdoptedBlock : BufferBlock {
  std::function<void(std::byte*)> give_back;
};

}  // namespace

Buffer Buffer::from_block(BufferBlock* block) {
  Buffer buffer;
  buffer.block_ = block;
  buffer.data_ = block->data;
  return buffer;
}

namespace {

Buffer allocate_buffer(size_t bytes, huge_pages::When huge) {
  auto block = std::make_unique<BufferBlock>();
  block->data = allocate_memory(bytes, Contents::kZeroed, huge);
  if (block->data == nullptr)
    fail(Errc::kOutOfMemory, "[buffer] the system has no {} bytes of memory to give", bytes);
  block->size = bytes;
  block->release = [](BufferBlock* self) {
    free_memory(self->data, self->size);
    delete self;
  };
  return Buffer::from_block(block.release());
}

// In memory, or in a file where this thread asked for that.
Buffer allocate_here(size_t bytes, huge_pages::When huge) {
  const std::filesystem::path* folder = bytes < kFileMemoryFrom ? nullptr : FileMemoryScope::folder();
  return folder != nullptr ? allocate_in_file(*folder, bytes) : allocate_buffer(bytes, huge);
}

}  // namespace

Buffer Buffer::allocate(size_t bytes) { return allocate_here(bytes, huge_pages::When::kAtOnce); }
Buffer allocate_lasting(size_t bytes) { return allocate_here(bytes, huge_pages::When::kLater); }

Buffer Buffer::mapped(std::shared_ptr<MappedFile> file, size_t offset, size_t bytes) {
  const size_t size = file->bytes().size();
  BF_CHECK(offset <= size && bytes <= size - offset)
      << file->path() << ": " << offset << " + " << bytes << " of " << size;
  auto block = std::make_unique<MappedBlock>();
  block->data = const_cast<std::byte*>(file->bytes().data()) + offset;
  block->size = bytes;
  block->writable = false;
  block->file = std::move(file);
  block->release = [](BufferBlock* self) { delete static_cast<MappedBlock*>(self); };
  return from_block(block.release());
}

Buffer Buffer::adopt(std::byte* data, size_t bytes, std::function<void(std::byte*)> release) {
  auto block = std::make_unique<AdoptedBlock>();
  block->data = data;
  block->size = bytes;
  block->give_back = std::move(release);
  block->release = [](BufferBlock* self) {
    auto* adopted = static_cast<AdoptedBlock*>(self);
    if (adopted->give_back) adopted->give_back(adopted->data);
    delete adopted;
  };
  return from_block(block.release());
}

}  // namespace butterfly
