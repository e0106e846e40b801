// For tests: published tokenizer vectors, as text and the ids a reference program gave.
#pragma once
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/json_text.h"

namespace butterfly::model {

struct TokenVector {
  std::string text;
  std::vector<int32_t> ids;
  std::string decoded;  // what the ids stand for; the text itself unless the reference says otherwise
};

inline std::string read_whole_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// One JSON object a line: {"text", "ids", "decoded"?}.
inline std::vector<TokenVector> read_jsonl_vectors(const std::filesystem::path& path) {
  std::vector<TokenVector> vectors;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto json = json_of_text<nlohmann::json>(line);
    const auto text = json["text"].get<std::string>();
    vectors.push_back({text, json["ids"].get<std::vector<int32_t>>(), json.value("decoded", text)});
  }
  return vectors;
}

// llama.cpp's: inputs in FILE.inp between separators, ids in FILE.out, one line each.
inline std::vector<TokenVector> read_llama_cpp_vectors(const std::filesystem::path& file) {
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  const std::string inputs = read_whole_file(file.string() + ".inp");
  std::ifstream outputs(file.string() + ".out");
  std::vector<TokenVector> vectors;
  size_t from = 0;
  for (size_t to; (to = inputs.find(kSeparator, from)) != std::string::npos; from = to + kSeparator.size()) {
    std::string line;
    std::getline(outputs, line);
    std::istringstream numbers(line);
    const std::string text = inputs.substr(from, to - from);
    vectors.push_back({text, {std::istream_iterator<int32_t>(numbers), {}}, text});
  }
  return vectors;
}

}  // namespace butterfly::model
