#include "cli/console/version.h"

#include <fmt/core.h>

#include "cli/console/revision.h"  // generated: kGitRevision
#include "kernels/simd/target.h"

namespace butterfly::cli {
namespace {

#if defined(__clang__)
constexpr const char* kCompiler = "clang++ " __clang_version__;
#else
constexpr const char* kCompiler = "g++ " __VERSION__;
#endif

}  // namespace

BuildInfo build_info() {
  return {.version = BUTTERFLY_VERSION,
          .revision = kGitRevision,
          .build_type = BUTTERFLY_BUILD_TYPE,
          .compiler = kCompiler,
          .target = kernels::target_name(),
          .numerics_id = kernels::kNumericsId};
}

std::string version_line() {
  const BuildInfo info = build_info();
  return fmt::format("butterfly {} ({}, {}, {}, {})", info.version, info.revision, info.build_type,
                     info.compiler, info.target);
}

}  // namespace butterfly::cli
