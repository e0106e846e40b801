// The stream of random draws (rng.h) of what has a name.
#pragma once
#include <cstdint>
#include <string_view>

namespace butterfly {

// FNV-1a, so that the draws of a tensor depend on its name and not on where it stands.
constexpr uint64_t random_stream(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace butterfly
