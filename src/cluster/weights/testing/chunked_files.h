// Small models of random bytes in small chunks, for tests of weights.
#pragma once
#include <string>
#include <vector>

#include "base/testing/temp_dir.h"
#include "base/thread_pool.h"
#include "cluster/weights/hash_files.h"

namespace butterfly::cluster::testing {

inline constexpr uint32_t kTestChunk = 1024;

inline std::string random_text(size_t bytes, uint32_t seed) {
  std::string text(bytes, '\0');
  uint32_t x = seed * 2654435761u + 1;
  for (char& c : text) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    c = static_cast<char>(x);
  }
  return text;
}

// Two files: one of 20 chunks and a rest of 100 bytes, one smaller than a chunk.
struct ChunkedFiles {
  butterfly::testing::TempDir dir;
  ThreadPool pool{1};
  std::vector<std::string> contents = {random_text(20 * kTestChunk + 100, 1), random_text(300, 2)};
  std::vector<std::filesystem::path> paths = {dir.write("model/a.gguf", contents[0]),
                                              dir.write("model/b.json", contents[1])};
  Manifest manifest = hash_files({{paths[0], 1500}, {paths[1], 300}}, {}, pool, nullptr, kTestChunk);
};

}  // namespace butterfly::cluster::testing
