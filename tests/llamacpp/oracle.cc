#include "oracle.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace butterfly::testing {
namespace {

namespace fs = std::filesystem;

const std::string kModules = BUTTERFLY_BINARY_DIR "/node-llama-cpp";
const std::string kHere = BUTTERFLY_SOURCE_DIR "/tests/llamacpp";

struct Finished {
  int status;
  std::string output;
};

Finished run(const std::string& command) {
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start " + command);
  std::string output;
  std::array<char, 4096> buffer{};
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    output.append(buffer.data(), count);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

}  // namespace

std::string oracle_why_not() {
  const Finished finished = run(fmt::format("bash '{}/install.sh' '{}'", kHere, kModules));
  return finished.status == 0 ? "" : "llama.cpp is not here: " + finished.output;
}

std::vector<std::vector<float>> oracle_logits(const std::vector<OracleJob>& jobs) {
  const fs::path dir = fs::temp_directory_path() / fmt::format("butterfly-oracle-{}", getpid());
  fs::create_directories(dir);
  nlohmann::json list;
  list["threads"] = 1;
  for (const OracleJob& job : jobs) {
    nlohmann::json entry{{"model", job.model.string()},
                         {"tokens", job.tokens},
                         {"context", job.context},
                         {"out", (dir / std::to_string(list["jobs"].size())).string()}};
    if (!job.adapter.empty()) {
      entry["adapter"] = job.adapter.string();
      entry["adapterScale"] = job.adapter_scale;
    }
    list["jobs"].push_back(entry);
  }
  std::ofstream(dir / "jobs.json") << list;
  const Finished finished = run(fmt::format("node '{}/logits.mjs' '{}/node_modules' '{}'", kHere, kModules,
                                            (dir / "jobs.json").string()));
  if (finished.status != 0) throw std::runtime_error("llama.cpp: " + finished.output);
  std::vector<std::vector<float>> results;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const fs::path path = dir / std::to_string(i);
    std::vector<float> logits(fs::file_size(path) / sizeof(float));
    std::ifstream(path, std::ios::binary)
        .read(reinterpret_cast<char*>(logits.data()),
              static_cast<std::streamsize>(logits.size() * sizeof(float)));
    results.push_back(std::move(logits));
  }
  fs::remove_all(dir);
  return results;
}

}  // namespace butterfly::testing
