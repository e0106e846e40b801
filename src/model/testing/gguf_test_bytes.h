// For tests: GGUF files built by hand, sound or broken in one place.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "model/formats/gguf.h"

namespace butterfly::model::testing {

// Appends raw fields; knows nothing of the format's rules, so that it can break them.
struct RawBytes {
  std::vector<std::byte> bytes;

  template <typename T>
  RawBytes& put(T value) {
    const auto* at = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), at, at + sizeof value);
    return *this;
  }
  RawBytes& text(std::string_view s) {
    const auto* at = reinterpret_cast<const std::byte*>(s.data());
    bytes.insert(bytes.end(), at, at + s.size());
    return *this;
  }
  RawBytes& string(std::string_view s) { return put(uint64_t{s.size()}).text(s); }
  RawBytes& header(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    return text("GGUF").put(version).put(tensors).put(keys);
  }
  RawBytes& key(std::string_view name, MetaType type) {
    return string(name).put(static_cast<uint32_t>(type));
  }
  RawBytes& tensor(std::string_view name, std::vector<uint64_t> sizes, uint32_t type, uint64_t offset) {
    string(name).put(static_cast<uint32_t>(sizes.size()));
    for (const uint64_t size : sizes) put(size);
    return put(type).put(offset);
  }
  RawBytes& pad(size_t to = 32) {
    bytes.resize((bytes.size() + to - 1) / to * to);
    return *this;
  }
  RawBytes& zeros(size_t count) {
    bytes.resize(bytes.size() + count);
    return *this;
  }
};

// A small sound file with a key of every type and three tensors (F32 [2, 3], Q8_0 [2, 32], F16 [5]).
std::vector<std::byte> small_gguf();

// The text of the Error that parse() throws for these bytes; empty if it throws none.
std::string parse_error(std::span<const std::byte> bytes);

}  // namespace butterfly::model::testing
