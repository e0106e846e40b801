// Rows quantised by ggml itself, from the shared data folder: bytes and the floats that ggml reads from them.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace butterfly::kernels::testing {

inline constexpr size_t kVectorRows = 16;
inline constexpr size_t kVectorRowValues = 256;

// Blocks and floats that ggml made of one source, by type. Holds all of it; immutable after load().
class GgmlVectors {
 public:
  // Nothing if the data is not on this machine; throws if it is there and cannot be read.
  static std::optional<GgmlVectors> load();

  std::vector<float> source() const { return floats("src"); }   // [16, 256]
  std::vector<std::byte> bytes(std::string_view type) const;    // [16, bytes of a row]
  std::vector<float> dequantized(std::string_view type) const;  // [16, 256]

 private:
  std::string_view tensor(const std::string& name) const;
  std::vector<float> floats(const std::string& name) const;

  std::string file_;  // safetensors: u64 length of the header, JSON header, data
};

}  // namespace butterfly::kernels::testing
