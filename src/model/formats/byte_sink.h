// Where bytes go: a file, or memory in tests.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace butterfly::model {

// Takes bytes in order. Throws Error kIo when the system refuses. One thread.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;
};

// Keeps all bytes. One thread.
class MemorySink final : public ByteSink {
 public:
  void write(std::span<const std::byte> from) override {
    bytes.insert(bytes.end(), from.begin(), from.end());
  }
  std::vector<std::byte> bytes;
};

}  // namespace butterfly::model
