#include "model/arch/mamba2.h"

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/recurrent/causal_conv.h"
#include "kernels/recurrent/selective_state.h"
#include "model/arch/config_keys.h"
#include "model/arch/network.h"
#include "model/arch/recurrent_share.h"

namespace butterfly::model {

Mamba2Config read_mamba2(const ModelFile& file) {
  const ConfigKeys keys(file);
  const size_t inner = keys.size("ssm.inner_size", kSizeMax), state = keys.size("ssm.state_size", 65536);
  const size_t heads = keys.size("ssm.time_step_rank", 65536), groups = keys.size("ssm.group_count", heads);
  const auto wrong = [&](const char* key, const std::string& expected, size_t found) {
    fail(Errc::kUnsupported, "{}: key {}: expected {}, found {}", file.path().string(), keys.key(key),
         expected, found);
  };
  if (inner % (heads * kernels::kSelectivePanel) != 0)
    wrong("ssm.inner_size", fmt::format("{} heads of a multiple of {}", heads, kernels::kSelectivePanel),
          inner);
  if (heads % groups != 0) wrong("ssm.group_count", fmt::format("a divisor of {}", heads), groups);
  const size_t taps = keys.size("ssm.conv_kernel", 65536);
  if (taps < 2 || taps > kernels::kConvTapsMax)
    wrong("ssm.conv_kernel", fmt::format("2 to {}", kernels::kConvTapsMax), taps);
  return {{.place = {},
           .heads = heads,
           .head_dim = inner / heads,
           .groups = groups,
           .state_dim = state,
           .a = nullptr,
           .dt = nullptr,
           .skip = nullptr},
          taps};
}

LayerState mamba2_state(const graph::SelectiveStateShape& shape, size_t taps) {
  const nn::SelectiveState sizes = nn::selective_state(shape, taps);
  return {
      .kind = StateKind::kRecurrent, .state_floats = sizes.floats(), .guess_floats = sizes.guess_floats()};
}

LayerState mamba2_share(const ModelFile& file, const ModelConfig& config, const GroupShare& group,
                        size_t layer) {
  const auto& [shape, taps] = read_mamba2(file);
  const nn::ShardOwners owners = mixer_owners(group, file, fmt::format("blk.{}.ssm_out", layer),
                                              shape.heads * shape.head_dim, config.dim);
  return mamba2_state(selective_part(shape, owners).shape, taps);
}

}  // namespace butterfly::model
