#include "oracle.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/testing/source_tree.h"

namespace butterfly::testing {
namespace {

namespace fs = std::filesystem;

const std::string kModules = BUTTERFLY_BINARY_DIR "/node-llama-cpp";
const std::string kHere = source_path("tests/llamacpp").string();

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

// A folder for one call's files, removed with it.
struct JobFolder {
  JobFolder() { fs::create_directories(path); }
  ~JobFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  const fs::path path = fs::temp_directory_path() / fmt::format("butterfly-oracle-{}", getpid());
};

void run_script(const char* script, const nlohmann::json& jobs, const fs::path& dir) {
  std::ofstream(dir / "jobs.json") << jobs;
  const Finished finished =
      run(fmt::format("node '{}/{}' '{}/node_modules' '{}' '{}'", kHere, script, kModules,
                      (dir / "jobs.json").string(), (dir / "out.json").string()));
  if (finished.status != 0) throw std::runtime_error("llama.cpp: " + finished.output);
}

}  // namespace

std::string oracle_why_not() {
  const Finished finished = run(fmt::format("bash '{}/install.sh' '{}'", kHere, kModules));
  return finished.status == 0 ? "" : "llama.cpp is not here: " + finished.output;
}

std::string oracle_library(const std::string& name) {
  return kModules + "/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/" + name;
}

std::vector<std::vector<float>> oracle_logits(const std::vector<OracleJob>& jobs) {
  const JobFolder folder;
  const fs::path& dir = folder.path;
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
  run_script("logits.mjs", list, dir);
  std::vector<std::vector<float>> results;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const fs::path path = dir / std::to_string(i);
    std::vector<float> logits(fs::file_size(path) / sizeof(float));
    std::ifstream(path, std::ios::binary)
        .read(reinterpret_cast<char*>(logits.data()),
              static_cast<std::streamsize>(logits.size() * sizeof(float)));
    results.push_back(std::move(logits));
  }
  return results;
}

std::vector<OracleIds> oracle_tokens(const std::vector<OracleTexts>& jobs) {
  const JobFolder folder;
  nlohmann::json list;
  for (const OracleTexts& job : jobs)
    list["jobs"].push_back({{"model", job.model.string()}, {"texts", job.texts}});
  run_script("tokens.mjs", list, folder.path);
  std::vector<OracleIds> results;
  for (const nlohmann::json& result : nlohmann::json::parse(std::ifstream(folder.path / "out.json"))) {
    if (result.is_string())
      results.emplace_back(result.get<std::string>());
    else
      results.emplace_back(result.get<std::vector<std::vector<int32_t>>>());
  }
  return results;
}

}  // namespace butterfly::testing
