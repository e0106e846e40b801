// The few calls on files that checkpoints need, behind one interface: tests stop it anywhere and lose what
// was not synced.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace butterfly::train {

// A file being written. Dropped without close(): the file stays as far as it was written. One thread.
class OutFile {
 public:
  virtual ~OutFile() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;  // all of them
  virtual void sync() = 0;                                   // what was written survives a loss of power
  virtual void close() = 0;
};

// A file being read, at any place. One thread.
class InFile {
 public:
  virtual ~InFile() = default;
  virtual uint64_t size() const = 0;
  // Fills `into` from the bytes at `offset` on; Error kIo where there are too few.
  virtual void read(uint64_t offset, std::span<std::byte> into) = 0;
};

// All calls throw Error kIo that names the path, the call and the system's words ("No space left on device").
// One thread at a time.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual std::unique_ptr<OutFile> create(const std::filesystem::path& path) = 0;  // replaces what is there
  virtual void make_folder(const std::filesystem::path& path) = 0;                 // and those above it
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  virtual void sync_folder(const std::filesystem::path& path) = 0;  // its entries survive a loss of power
  virtual void remove_all(const std::filesystem::path& path) = 0;
  virtual bool exists(const std::filesystem::path& path) = 0;
  virtual std::vector<std::string> list(const std::filesystem::path& folder) = 0;  // names, sorted
  virtual std::unique_ptr<InFile> open(const std::filesystem::path& path) = 0;
  // The whole of a small file.
  std::vector<std::byte> read(const std::filesystem::path& path) {
    const auto file = open(path);
    std::vector<std::byte> bytes(file->size());
    file->read(0, bytes);
    return bytes;
  }
};

// The system's own.
FileSystem& real_file_system();

}  // namespace butterfly::train
