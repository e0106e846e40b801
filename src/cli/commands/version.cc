// `butterfly version`: what this program is, in full.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/options.h"
#include "cli/console/version.h"
#include "kernels/simd/target.h"

namespace butterfly::cli {
namespace {

struct VersionOptions {
  bool json = false;
};

int version(const VersionOptions& options) {
  const BuildInfo info = build_info();
  if (options.json) {
    const nlohmann::ordered_json json = {
        {"version", info.version},         {"revision", info.revision},
        {"build", info.build_type},        {"compiler", info.compiler},
        {"target", info.target},           {"available_targets", kernels::available_targets()},
        {"numerics_id", info.numerics_id},
    };
    fmt::print("{}\n", json_text(json, 2));
    return kExitOk;
  }
  fmt::print("version      {}\nrevision     {}\nbuild        {}\ncompiler     {}\n", info.version,
             info.revision, info.build_type, info.compiler);
  fmt::print("target       {} (of {})\n", info.target, fmt::join(kernels::available_targets(), ", "));
  fmt::print("numerics id  {}\n", info.numerics_id);
  return kExitOk;
}

}  // namespace

CommandBody setup_version(CLI::App& app) {
  auto options = std::make_shared<VersionOptions>();
  add_json_flag(app, options->json);
  return [options] { return version(*options); };
}

}  // namespace butterfly::cli
