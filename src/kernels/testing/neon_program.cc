#include "kernels/testing/neon_program.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>

#include "base/testing/source_tree.h"

namespace butterfly::kernels::testing {
namespace {

struct Outcome {
  int status;
  std::string output;  // stdout and stderr
};
Outcome shell(const std::string& command) {
  Outcome outcome{-1, {}};
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen((command + " 2>&1").c_str(), "r"),
                                                   [](FILE*) { return 0; });
  if (!pipe) return outcome;
  char buffer[4096];
  while (const size_t got = fread(buffer, 1, sizeof buffer, pipe.get())) outcome.output.append(buffer, got);
  outcome.status = pclose(pipe.get());
  return outcome;
}

Fingerprints parse(const std::string& output, const std::string& target) {
  Fingerprints found;
  std::istringstream lines(output);
  std::string name, hash, what;
  while (lines >> name >> hash && std::getline(lines >> std::ws, what))
    if (name == target) found[what] = hash;
  return found;
}

}  // namespace

std::string fingerprint_text(unsigned long long value) {
  char text[17];
  snprintf(text, sizeof text, "%016llx", value);
  return text;
}

std::string neon_why_not() {
  for (const char* program : {"aarch64-linux-gnu-g++", "qemu-aarch64", "cmake", "ninja"})
    if (shell(std::string("command -v ") + program).status != 0)
      return std::string(program) + " is not installed";
  return {};
}

NeonRun run_for_neon(const std::string& program) {
  // Beside the build that this test belongs to.
  const std::string build =
      (std::filesystem::canonical("/proc/self/exe").parent_path().parent_path() / "neon").string();
  const std::string source = source_path().string();
  // Two test programs may want the same build at once.
  const std::string lock = "flock '" + build + ".lock' ";
  for (const std::string& command :
       {lock + "cmake -S '" + source + "/tests/neon' -B '" + build + "' -G Ninja -DCMAKE_TOOLCHAIN_FILE='" +
            source + "/cmake/aarch64.cmake'",
        lock + "nice cmake --build '" + build + "' --target " + program}) {
    const Outcome outcome = shell(command);
    if (outcome.status != 0) return {{}, command + "\n" + outcome.output};
  }
  const Outcome run = shell("qemu-aarch64 -L /usr/aarch64-linux-gnu '" + build + "/bin/" + program + "'");
  if (run.status != 0) return {{}, run.output};
  return {parse(run.output, "NEON"), {}};
}

}  // namespace butterfly::kernels::testing
