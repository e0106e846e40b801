// The architectures that this program knows, as files name them in general.architecture.
//
// A new one begins here: each table with a row for every architecture (how it is loaded, a random model of
// it, its Hugging Face class, its digest of logits) asserts that it covers the list, so a row that is missing
// does not compile.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string_view>

namespace butterfly::model {

inline constexpr std::string_view kArchitectureNames[] = {
    "llama",      "mistral3",  "smollm3", "granite",    "granitemoe",     "olmo2",         "glm4moe",
    "minimax-m2", "qwen2",     "qwen3",   "qwen3moe",   "qwen3vl",        "qwen3vlmoe",    "qwen35",
    "qwen35moe",  "qwen3next", "lfm2",    "lfm2moe",    "gpt2",           "gpt-oss",       "phi3",
    "gemma2",     "gemma3",    "gemma4",  "nemotron_h", "nemotron_h_moe", "granitehybrid", "deepseek2",
};

// Whether `rows` name every architecture at least once in `name`, and nothing else.
template <typename Row, size_t count, typename Name>
constexpr bool covers_architectures(const Row (&rows)[count], Name Row::*name) {
  const auto in_rows = [&](std::string_view wanted) {
    return std::any_of(rows, rows + count,
                       [&](const Row& row) { return std::string_view(row.*name) == wanted; });
  };
  const auto in_names = [&](const Row& row) {
    return std::find(std::begin(kArchitectureNames), std::end(kArchitectureNames),
                     std::string_view(row.*name)) != std::end(kArchitectureNames);
  };
  return std::all_of(std::begin(kArchitectureNames), std::end(kArchitectureNames), in_rows) &&
         std::all_of(rows, rows + count, in_names);
}

}  // namespace butterfly::model
