// llama.cpp as oracle: runs it on model files and returns its logits.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

namespace butterfly::testing {

struct OracleJob {
  std::filesystem::path model;
  std::vector<int32_t> tokens;
  size_t context = 128;
  std::filesystem::path adapter = {};  // a GGUF LoRA adapter; may be empty
  double adapter_scale = 1;
};

// Why llama.cpp cannot be had here, or empty. Installs it on the first call.
std::string oracle_why_not();

// One of llama.cpp's libraries, once it is installed.
std::string oracle_library(const std::string& name);

// Logits [tokens, vocabulary] for each job, from one process. Throws std::runtime_error with what it printed.
std::vector<std::vector<float>> oracle_logits(const std::vector<OracleJob>& jobs);

struct OracleTexts {
  std::filesystem::path model;  // only its vocabulary is read
  std::vector<std::string> texts;
};
// Ids of each text without BOS and EOS, or why llama.cpp refused the vocabulary; for each job, from one
// process. Throws std::runtime_error with what it printed.
using OracleIds = std::variant<std::vector<std::vector<int32_t>>, std::string>;
std::vector<OracleIds> oracle_tokens(const std::vector<OracleTexts>& jobs);

}  // namespace butterfly::testing
