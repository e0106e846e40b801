// A file that appears whole or not at all.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "model/formats/byte_sink.h"

namespace butterfly::model {

// Buffers writes to a temporary file beside `path`; commit() syncs it and renames it over `path`.
// Destroyed without commit(), it removes the temporary file. One thread.
class FileSink final : public ByteSink {
 public:
  explicit FileSink(std::filesystem::path path);
  ~FileSink() override;
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

  void write(std::span<const std::byte> bytes) override;
  void commit();

 private:
  void flush();
  void write_through(std::span<const std::byte> bytes);
  [[noreturn]] void refuse(const char* what) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  std::vector<std::byte> buffer_;
};

}  // namespace butterfly::model
