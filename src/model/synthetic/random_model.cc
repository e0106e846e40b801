#include "model/synthetic/random_model.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/random_stream.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "kernels/quant/quant.h"
#include "model/formats/file_type.h"
#include "model/formats/gguf_writer.h"
#include "model/metadata/architecture_names.h"
#include "model/synthetic/random_layouts.h"
#include "model/synthetic/synthetic_vocabulary.h"

namespace butterfly::model {
namespace {

constexpr RandomArchitecture kArchitectures[] = {
    {"llama", "llama", add_llama_metadata, plan_llama},
    {"llama3", "llama", add_llama3_metadata, plan_llama3},
    {"mixtral", "llama", add_mixtral_metadata, plan_mixtral},
    {"qwen2", "qwen2", add_qwen2_metadata, plan_qwen2},
    {"qwen3", "qwen3", add_qwen3_metadata, plan_qwen3},
    {"qwen3moe", "qwen3moe", add_qwen3moe_metadata, plan_qwen3moe},
    {"qwen3vl", "qwen3vl", add_qwen3vl_metadata, plan_qwen3},
    {"qwen3vlmoe", "qwen3vlmoe", add_qwen3vlmoe_metadata, plan_qwen3moe},
    {"qwen35", "qwen35", add_qwen35_metadata, plan_qwen35, 5, true},
    {"qwen35moe", "qwen35moe", add_qwen35moe_metadata, plan_qwen35moe, 5, true},
    {"qwen3next", "qwen3next", add_qwen3next_metadata, plan_qwen3next, 5},
    {"mistral3", "mistral3", add_mistral3_metadata, plan_llama},
    {"smollm3", "smollm3", add_smollm3_metadata, plan_llama, 5},
    {"granite", "granite", add_granite_metadata, plan_granite},
    {"granitemoe", "granitemoe", add_granitemoe_metadata, plan_granitemoe},
    {"olmo2", "olmo2", add_olmo2_metadata, plan_olmo2, 5},
    {"glm4moe", "glm4moe", add_glm4moe_metadata, plan_glm4moe, 3, true},
    {"minimax-m2", "minimax-m2", add_minimax_m2_metadata, plan_minimax_m2},
    {"lfm2", "lfm2", add_lfm2_metadata, plan_lfm2, 5},
    {"lfm2moe", "lfm2moe", add_lfm2moe_metadata, plan_lfm2moe, 5},
    {"gpt2", "gpt2", add_gpt2_metadata, plan_gpt2},
    {"gpt-oss", "gpt-oss", add_gpt_oss_metadata, plan_gpt_oss},
    {"phi3", "phi3", add_phi3_metadata, plan_phi3},
    {"gemma2", "gemma2", add_gemma2_metadata, plan_gemma2},
    {"gemma3", "gemma3", add_gemma3_metadata, plan_gemma3, 7},
    {"gemma4", "gemma4", add_gemma4_metadata, plan_gemma4, 6},
    {"gemma4moe", "gemma4", add_gemma4moe_metadata, plan_gemma4moe, 3},
    {"nemotron_h", "nemotron_h", add_nemotron_h_metadata, plan_nemotron_h, 5},
    {"nemotron_h_moe", "nemotron_h_moe", add_nemotron_h_moe_metadata, plan_nemotron_h_moe, 5},
    {"granitehybrid", "granitehybrid", add_granitehybrid_metadata, plan_granitehybrid, 4},
    {"deepseek2", "deepseek2", add_deepseek2_metadata, plan_deepseek2, 3},
};
static_assert(covers_architectures(kArchitectures, &RandomArchitecture::architecture));

// Values drawn and quantised at once: a few megabytes, and enough for every thread.
constexpr size_t kChunkValues = size_t{1} << 19;

// Noise of mean 0 and deviation 1 in [-3, 3]: the sum of three uniform draws of 21 bits, exact before its one
// rounding. Two values come out of one Philox block, four times as fast as random_normal(), and a large model
// is a billion values.
void draw_noise(uint64_t seed, uint64_t stream, uint64_t begin, std::span<float> to) {
  constexpr uint64_t kMax = (uint64_t{1} << 21) - 1;
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  std::array<uint32_t, 4> words{};
  for (size_t i = 0; i < to.size(); ++i) {
    const uint64_t index = begin + i;
    if (i == 0 || index % 2 == 0) {
      const uint64_t pair = index / 2;
      words = philox({static_cast<uint32_t>(pair), static_cast<uint32_t>(pair >> 32),
                      static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                     key);
    }
    const size_t half = index % 2 * 2;
    const uint64_t bits = words[half] | uint64_t{words[half + 1]} << 32;
    const uint64_t sum = (bits & kMax) + (bits >> 21 & kMax) + (bits >> 42 & kMax);
    to[i] = static_cast<float>(static_cast<int32_t>(2 * sum) - static_cast<int32_t>(3 * kMax)) * 0x1p-21f;
  }
}

void check_type(const TensorPlan& plan) {
  const DTypeInfo& type = dtype_info(plan.dtype);
  if (!kernels::can_quantize(plan.dtype)) {
    fail(Errc::kUnsupported, "{}: cannot make values of type {}", plan.name, type.name);
  }
  if (plan.shape.back() % type.block_values != 0) {
    fail(Errc::kInvalidArgument, "{}: rows of {} values are no multiple of {}'s block of {}", plan.name,
         plan.shape.back(), type.name, type.block_values);
  }
}

// Hands the tensor's bytes to `sink` in chunks of whole blocks.
void draw(const TensorPlan& plan, uint64_t seed, ThreadPool& threads, ByteSink& sink,
          const std::function<void(size_t bytes)>& written) {
  const DTypeInfo& type = dtype_info(plan.dtype);
  const uint64_t stream = random_stream(plan.name);
  const auto count = static_cast<size_t>(plan.shape.count());
  std::vector<float> values(std::min(count, kChunkValues));
  std::vector<std::byte> bytes(*dtype_bytes(plan.dtype, values.size()));
  for (size_t begin = 0; begin < count; begin += kChunkValues) {
    const size_t size = std::min(kChunkValues, count - begin);
    threads.parallel_for(size / type.block_values, 64, [&](size_t first, size_t last) {
      const size_t from = first * type.block_values;
      const size_t to = last * type.block_values;
      draw_noise(seed, stream, begin + from, {&values[from], to - from});
      for (size_t i = from; i < to; ++i) values[i] = plan.mean + plan.deviation * values[i];
      kernels::from_float(plan.dtype, &values[from], &bytes[first * type.block_bytes], to - from);
    });
    const size_t chunk_bytes = *dtype_bytes(plan.dtype, size);
    sink.write({bytes.data(), chunk_bytes});
    written(chunk_bytes);
  }
}

}  // namespace

std::span<const RandomArchitecture> random_architectures() { return kArchitectures; }

const RandomArchitecture& random_architecture(std::string_view name) {
  std::string known;
  for (const RandomArchitecture& architecture : kArchitectures) {
    if (architecture.name == name) return architecture;
    known += known.empty() ? architecture.name : fmt::format(", {}", architecture.name);
  }
  fail(Errc::kUnsupported, "architecture '{}': expected one of {}", name, known);
}

void write_random_model(const std::filesystem::path& path, const RandomModelOptions& options,
                        const WriteProgress& progress) {
  const RandomArchitecture& architecture = random_architecture(options.architecture);
  if (options.predicting_blocks > 1 || (options.predicting_blocks == 1 && !architecture.predicts))
    fail(Errc::kInvalidArgument, "{} has {} blocks that predict ahead, found {}", options.architecture,
         architecture.predicts ? "0 or 1" : "no", options.predicting_blocks);
  Metadata metadata;
  metadata.set("general.architecture", std::string(architecture.architecture));
  // Not the architecture: llama.cpp takes some names as a sign of the vocabularies published with them.
  metadata.set("general.name", fmt::format("random weights (seed {})", options.seed));
  metadata.set("general.file_type", file_type_number(options.matrix_type));
  metadata.set("general.quantization_version", uint32_t{2});
  architecture.add_metadata(options, metadata);
  add_synthetic_vocabulary(metadata, options.vocabulary_size);

  ThreadPool threads;
  uint64_t total = 0;
  uint64_t done = 0;
  const auto written = [&](size_t bytes) {
    done += bytes;
    if (progress) progress(done, total);
  };
  GgufWriter writer(std::move(metadata));
  for (const TensorPlan& plan : architecture.plan(options)) {
    check_type(plan);
    total += *dtype_bytes(plan.dtype, static_cast<uint64_t>(plan.shape.count()));
    writer.add_tensor(plan.name, plan.dtype, plan.shape,
                      [plan, &options, &threads, &written](ByteSink& sink) {
                        draw(plan, options.seed, threads, sink, written);
                      });
  }
  writer.write(path);
}

}  // namespace butterfly::model
