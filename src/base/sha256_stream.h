// SHA-256 of bytes that come one after the other.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace butterfly {

// One thread.
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  Sha256Stream(Sha256Stream&&) noexcept;
  Sha256Stream& operator=(Sha256Stream&&) noexcept;

  void add(std::span<const std::byte> bytes);
  // Of all that was added, as 64 hexadecimal digits; more may be added after it.
  std::string hex() const;

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace butterfly
