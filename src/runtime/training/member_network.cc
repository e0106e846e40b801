#include "runtime/training/member_network.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/sha256.h"
#include "kernels/simd/target.h"
#include "train/task/task.h"

namespace butterfly::runtime {
MemberNetwork open_member(train::TrainConfig config, uint64_t steps, const std::filesystem::path& model,
                          size_t threads) {
  config.workers = 1;
  config.threads = threads;
  MemberNetwork member;
  member.network = train::open_network(config, model);
  member.trainer = std::make_unique<train::Trainer>(*member.network, train::trainer_options(config, steps));
  return member;
}

cluster::PackingOptions packing_options(const train::TrainConfig& config) {
  return {.mode = cluster::packing_mode_by_name(config.wire_compress),
          .bytes_min = config.wire_compress_min_bytes};
}

std::string agreement_of(const train::TrainConfig& config, train::Trainer& trainer) {
  std::string text =
      fmt::format("numerics {}\noptimizer {}\nclip {}\nseed {}\nwire {} {}\n", kernels::kNumericsId,
                  config.optimizer, config.max_grad_norm, config.seed, config.wire_mode, trainer.slots());
  for (const train::StateArray& array : trainer.optimizer_state())
    text += fmt::format("{} {}\n", array.name, array.bytes.size());
  const train::ParameterLayout& layout = trainer.layout();
  for (size_t i = 0; i < layout.size(); ++i) {
    const graph::Parameter& parameter = layout.parameter(i);
    text += parameter.name;
    for (size_t d = 0; d < parameter.value.rank(); ++d) text += fmt::format(" {}", parameter.value.size(d));
    text +=
        fmt::format(" {}{}\n", dtype_name(parameter.value.dtype()), parameter.statistic ? " statistic" : "");
  }
  return sha256_hex(text);
}

std::string parameters_hash(const train::Trainer& trainer) {
  std::string hashes;
  const train::ParameterLayout& layout = trainer.layout();
  for (size_t i = 0; i < layout.size(); ++i)
    hashes += sha256_hex(
        std::span<const std::byte>(layout.parameter(i).value.raw(), layout.count(i) * sizeof(float)));
  return sha256_hex(hashes);
}

}  // namespace butterfly::runtime
