#include "train/trainer/gradient_wire.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "kernels/optim/gradient_code.h"

namespace butterfly::train {
namespace {

constexpr std::string_view kNames[] = {"exact", "bf16", "int8", "local-steps", "local-steps-int4"};

// Code begins at multiples of this: scales are floats.
constexpr size_t kCodeAlign = sizeof(float);

}  // namespace

std::string_view wire_mode_name(WireMode mode) { return kNames[static_cast<size_t>(mode)]; }

WireMode wire_mode_by_name(std::string_view name) {
  if (name == "auto") return WireMode::kExact;
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name) return static_cast<WireMode>(i);
  fail(Errc::kInvalidArgument,
       "wire_mode: expected exact, auto, bf16, int8, local-steps or local-steps-int4, found '{}'", name);
}

GradientWire::GradientWire(const ParameterLayout& layout, WireMode mode) : layout_(layout), mode_(mode) {
  size_t at = 0;
  for (const NormBlock& block : layout.blocks()) {
    offsets_.push_back(at);
    at += (block_bytes(block) + kCodeAlign - 1) / kCodeAlign * kCodeAlign;
  }
  offsets_.push_back(at);
}

bool GradientWire::is_float(const NormBlock& block) const {
  return mode_ == WireMode::kExact || layout_.parameter(block.parameter).statistic;
}

size_t GradientWire::block_bytes(const NormBlock& block) const {
  if (is_float(block)) return block.count * sizeof(float);
  if (mode_ == WireMode::kBf16) return block.count * sizeof(uint16_t);
  if (mode_ == WireMode::kLocalStepsInt4)
    return kernels::code4_blocks(block.count) * sizeof(float) + kernels::code4_bytes(block.count);
  return kernels::code_blocks(block.count) * sizeof(float) + block.count;
}

void GradientWire::encode(const Shard& shard, float* gradients, float* residual, std::byte* code,
                          ThreadPool& pool) const {
  BF_CHECK((residual != nullptr) == has_residuals(mode_)) << wire_mode_name(mode_);
  const auto& blocks = layout_.blocks();
  pool.parallel_for(shard.end - shard.begin, 1, [&](size_t begin, size_t end) {
    for (size_t i = shard.begin + begin; i < shard.begin + end; ++i) {
      const NormBlock& block = blocks[i];
      float* values = gradients + block.offset;
      std::byte* to = code + offsets_[i];
      if (is_float(block)) {
        std::memcpy(to, values, block.count * sizeof(float));
      } else if (mode_ == WireMode::kBf16) {
        kernels::encode_bf16(values, reinterpret_cast<uint16_t*>(to), block.count);
      } else if (mode_ == WireMode::kLocalStepsInt4) {
        auto* scales = reinterpret_cast<float*>(to);
        kernels::encode_int4(values, residual + block.offset, scales,
                             reinterpret_cast<int8_t*>(scales + kernels::code4_blocks(block.count)),
                             block.count);
      } else {
        auto* scales = reinterpret_cast<float*>(to);
        kernels::encode_int8(values, residual + block.offset, scales,
                             reinterpret_cast<int8_t*>(scales + kernels::code_blocks(block.count)),
                             block.count);
      }
      // Up to the next block: nobody reads it, but it is sent.
      std::memset(to + block_bytes(block), 0, offsets_[i + 1] - offsets_[i] - block_bytes(block));
    }
  });
}

void GradientWire::decode(const Shard& shard, const std::byte* code, float* gradients) const {
  const auto& blocks = layout_.blocks();
  const size_t first = layout_.shard_offset(shard);
  for (size_t i = shard.begin; i < shard.end; ++i) {
    const NormBlock& block = blocks[i];
    float* values = gradients + (block.offset - first);
    const std::byte* from = code + (offsets_[i] - offsets_[shard.begin]);
    if (is_float(block)) {
      std::memcpy(values, from, block.count * sizeof(float));
    } else if (mode_ == WireMode::kBf16) {
      kernels::decode_bf16(reinterpret_cast<const uint16_t*>(from), values, block.count);
    } else if (mode_ == WireMode::kLocalStepsInt4) {
      const auto* scales = reinterpret_cast<const float*>(from);
      kernels::decode_int4(scales,
                           reinterpret_cast<const int8_t*>(scales + kernels::code4_blocks(block.count)),
                           values, block.count);
    } else {
      const auto* scales = reinterpret_cast<const float*>(from);
      kernels::decode_int8(scales,
                           reinterpret_cast<const int8_t*>(scales + kernels::code_blocks(block.count)),
                           values, block.count);
    }
    const size_t next = layout_.shard_offset({i + 1, i + 1});
    std::fill(values + block.count, values + (next - block.offset), 0.0f);
  }
}

}  // namespace butterfly::train
