#include "train/trainer/batch_inputs.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/rng.h"
#include "train/data/batch.h"

namespace butterfly::train {
namespace {

template <typename T>
void fill(graph::Executor& executor, graph::ValueId value, std::span<const T> from, const char* what) {
  if (!value.valid()) return;
  const size_t bytes = executor.graph().type(value).bytes();
  if (from.size_bytes() != bytes)
    fail(Errc::kInvalidArgument, "micro-batch: expected {} {}, found {}", bytes / sizeof(T), what,
         from.size());
  std::memcpy(executor.input(value), from.data(), bytes);
}

// Ids without their marks, and the place of each in its document.
void tokens_and_positions(std::span<const int32_t> written, size_t length, BatchRoom& room) {
  room.tokens.resize(written.size());
  room.positions.resize(written.size());
  for (size_t i = 0; i < written.size(); ++i) {
    room.tokens[i] = id_of(written[i]);
    room.positions[i] = i % length == 0 || is_document_start(written[i]) ? 0 : room.positions[i - 1] + 1;
  }
}

void beginnings(std::span<const int32_t> from, size_t length, size_t shorter, std::vector<int32_t>& to) {
  to.clear();
  for (size_t at = 0; at < from.size(); at += length) {
    const auto begin = from.begin() + static_cast<ptrdiff_t>(at);
    to.insert(to.end(), begin, begin + static_cast<ptrdiff_t>(shorter));
  }
}

}  // namespace

size_t used_length(std::span<const int32_t> targets, size_t length, size_t unit) {
  size_t used = 1;
  for (size_t at = 0; at < targets.size(); at += length)
    for (size_t i = std::min(length, targets.size() - at); i > used; --i)
      if (targets[at + i - 1] >= 0) {
        used = i;
        break;
      }
  return std::min(length, (used + unit - 1) / unit * unit);
}

MicroBatch shortened(const MicroBatch& batch, size_t length, size_t shorter, BatchRoom& room) {
  beginnings(batch.tokens, length, shorter, room.shorter_tokens);
  beginnings(batch.targets, length, shorter, room.shorter_targets);
  return {.tokens = room.shorter_tokens,
          .pixels = batch.pixels,
          .targets = room.shorter_targets,
          .counted = batch.counted};
}

void fill_inputs(graph::Executor& executor, const BuiltNetwork& built, const MicroBatch& batch,
                 const BatchNumbers& numbers, BatchRoom& room) {
  tokens_and_positions(batch.tokens, built.length, room);
  fill<int32_t>(executor, built.tokens, room.tokens, "tokens");
  fill(executor, built.pixels, batch.pixels, "pixel values");
  fill(executor, built.targets, batch.targets, "targets");
  fill<int32_t>(executor, built.positions, room.positions, "positions");
  fill<float>(executor, built.factor, {&numbers.factor, 1}, "factors");
  const uint64_t key = random_u64(numbers.seed, numbers.step, numbers.index);
  const int32_t words[2] = {static_cast<int32_t>(key), static_cast<int32_t>(key >> 32)};
  fill<int32_t>(executor, built.dropout_key, words, "words");
}

void ids_of(std::span<const int32_t> written, std::vector<int32_t>& ids) {
  ids.resize(written.size());
  std::ranges::transform(written, ids.begin(), id_of);
}

size_t count_targets(const MicroBatch& batch) {
  if (batch.counted > 0) return batch.counted;
  return static_cast<size_t>(
      std::count_if(batch.targets.begin(), batch.targets.end(), [](int32_t target) { return target >= 0; }));
}

}  // namespace butterfly::train
