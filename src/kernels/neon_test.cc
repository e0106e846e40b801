// Every kernel on NEON under qemu against this machine's targets, by fingerprint.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "kernels/digest_table.h"
#include "kernels/target.h"

namespace butterfly::kernels {
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

bool on_path(const char* program) { return shell(std::string("command -v ") + program).status == 0; }

// Fingerprints by kernel of one target.
using Fingerprints = std::map<std::string, std::string>;

Fingerprints parse(const std::string& output, const std::string& target) {
  Fingerprints found;
  std::istringstream lines(output);
  std::string name, hash, kernel;
  while (lines >> name >> hash && std::getline(lines >> std::ws, kernel))
    if (name == target) found[kernel] = hash;
  return found;
}

Fingerprints native() {
  Fingerprints found;
  for (const DigestRow& row : digest_table()) {
    Digest digest;
    row.run(digest);
    char text[17];
    snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(digest.value()));
    found[row.name] = text;
  }
  return found;
}

TEST(Digests, EveryTargetOfThisMachineAgrees) {
  const Fingerprints first = native();
  EXPECT_EQ(first.size(), digest_table().size());
  for_each_target([&](const std::string& target) {
    const Fingerprints here = native();
    for (const auto& [kernel, hash] : first) EXPECT_EQ(here.at(kernel), hash) << kernel << " on " << target;
  });
}

TEST(Digests, OneBitShows) {
  Digest a, b;
  a.add(1.0f);
  b.add(std::nextafter(1.0f, 2.0f));
  EXPECT_NE(a.value(), b.value());
  a = {}, b = {};
  a.add(0.0f), a.add(1.0f);
  b.add(1.0f), b.add(0.0f);
  EXPECT_NE(a.value(), b.value()) << "order counts";
}

TEST(Neon, EveryKernelGivesTheBitsOfThisMachine) {
  for (const char* program : {"aarch64-linux-gnu-g++", "qemu-aarch64", "cmake", "ninja"})
    if (!on_path(program)) GTEST_SKIP() << program << " is not installed";

  const auto build = std::filesystem::canonical("/proc/self/exe").parent_path().parent_path() / "neon";
  const std::string source = BUTTERFLY_SOURCE_DIR;
  const Outcome configured = shell("cmake -S '" + source + "/tests/neon' -B '" + build.string() +
                                   "' -G Ninja -DCMAKE_TOOLCHAIN_FILE='" + source + "/cmake/aarch64.cmake'");
  ASSERT_EQ(configured.status, 0) << configured.output;
  const Outcome built = shell("nice cmake --build '" + build.string() + "'");
  ASSERT_EQ(built.status, 0) << built.output;
  const Outcome run =
      shell("qemu-aarch64 -L /usr/aarch64-linux-gnu '" + (build / "bin" / "numerics_digest").string() + "'");
  ASSERT_EQ(run.status, 0) << run.output;

  const Fingerprints neon = parse(run.output, "NEON");
  EXPECT_EQ(neon.size(), digest_table().size()) << run.output;
  for_each_target([&](const std::string& target) {
    for (const auto& [kernel, hash] : native()) {
      const auto found = neon.find(kernel);
      ASSERT_NE(found, neon.end()) << kernel << " is missing:\n" << run.output;
      EXPECT_EQ(found->second, hash) << kernel << ": NEON against " << target;
    }
  });
}

}  // namespace
}  // namespace butterfly::kernels
