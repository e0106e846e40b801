// Recurrences over whole sequences, for training: forward from zeros, and backward in reverse order of
// tokens.
//
// The backward pass keeps no state of the forward pass. It runs that again and writes down the state before
// every chunk of tokens; then, last chunk first, the states before each token of the chunk, from which the
// tokens go backwards. So memory is one state for every kStateChunk tokens, and kStateChunk of one head for
// each thread, for three runs of the recurrence in all. What several heads add to the same row (they share
// keys, say) stands apart first and is added in order of heads, so threads change no bit.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstring>

#include "graph/ops/documents.h"
#include "graph/ops/op_util.h"

namespace butterfly::graph {

inline constexpr size_t kStateChunk = 64;

// Sizes of such an op: `heads` that do not see each other, each with a state.
struct SequenceStates {
  size_t heads, state_floats;
  size_t length;           // of a sequence
  size_t part_floats = 0;  // what a head's token adds to rows that heads share
  size_t spare_floats = 0;
  size_t chunk() const { return std::min(kStateChunk, length); }
  size_t chunks() const { return (length + kStateChunk - 1) / kStateChunk; }
  size_t forward_scratch() const { return state_floats * sizeof(float); }
  size_t backward_scratch() const { return (chunk() * state_floats + spare_floats) * sizeof(float); }
  // Memory of the backward pass, as values of the graph: states before chunks, slopes of states, parts.
  ValueType snapshots() const { return floats(chunks() * heads, state_floats); }
  ValueType slopes() const { return floats(heads, state_floats); }
  ValueType parts() const { return floats(heads * chunk(), part_floats); }
};

// fn(head, worker) for all heads, shared out over the pool.
template <typename F>
void each_head(const RunContext& run, size_t heads, F&& fn) {
  std::atomic<size_t> next{0};
  run.pool().run([&](size_t worker) {
    for (size_t head = next.fetch_add(1); head < heads; head = next.fetch_add(1)) fn(head, worker);
  });
}

// The rows of the op, and the document begins among them (input `positions_input`, if it is there).
struct SequenceRows {
  size_t count;
  const int32_t* positions;
  SequenceRows(const Node& node, const RunContext& run, size_t positions_input)
      : count(run.type(node.inputs[0]).rows()),
        positions(node.inputs.size() > positions_input ? run.i32(node.inputs[positions_input]) : nullptr) {}
};

// carry(head, from, to, row, count): rows [row, row + count), at most a chunk, with outputs.
template <typename Carry>
void run_sequences(const Node& node, const RunContext& run, const SequenceStates& sizes,
                   const SequenceRows& rows, Carry&& carry) {
  const size_t sequences = rows.count / sizes.length;
  each_head(run, sequences * sizes.heads, [&](size_t unit, size_t worker) {
    auto* state = reinterpret_cast<float*>(run.scratch(node, worker));
    each_document(sizes.length, rows.positions, unit / sizes.heads * sizes.length, [&](const Document& part) {
      for (size_t i = 0; i < part.length; i += kStateChunk)
        carry(unit % sizes.heads, i == 0 ? nullptr : state, state, part.row + i,
              std::min(kStateChunk, part.length - i));
    });
  });
}

struct BackwardMemory {
  float *snapshots, *slopes, *parts;
};

// carry() as above, without outputs. back(head, before, row, slope, part, spare): one token backwards; `part`
// is zeroed. add(row, parts, stride): what the heads' parts of a row, `stride` floats apart, become.
template <typename Carry, typename Back, typename Add>
void run_sequences_back(const Node& node, const RunContext& run, const SequenceStates& sizes,
                        const SequenceRows& rows, const BackwardMemory& memory, Carry&& carry, Back&& back,
                        Add&& add) {
  const size_t state = sizes.state_floats, heads = sizes.heads, chunk = sizes.chunk();
  const auto snapshot = [&](size_t index, size_t head) {
    return memory.snapshots + (index * heads + head) * state;
  };
  const auto take_part = [&](const Document& part) {
    const size_t chunks = (part.length + kStateChunk - 1) / kStateChunk;
    each_head(run, heads, [&](size_t head, size_t) {
      std::memset(snapshot(0, head), 0, state * sizeof(float));
      std::memset(memory.slopes + head * state, 0, state * sizeof(float));
      for (size_t i = 0; i + 1 < chunks; ++i)
        carry(head, snapshot(i, head), snapshot(i + 1, head), part.row + i * kStateChunk, kStateChunk);
    });
    for (size_t index = chunks; index-- > 0;) {
      const size_t first = part.row + index * kStateChunk,
                   count = std::min(kStateChunk, part.length - index * kStateChunk);
      each_head(run, heads, [&](size_t head, size_t worker) {
        auto* states = reinterpret_cast<float*>(run.scratch(node, worker));
        float* parts = memory.parts + head * chunk * sizes.part_floats;
        std::memset(parts, 0, count * sizes.part_floats * sizeof(float));
        std::memcpy(states, snapshot(index, head), state * sizeof(float));
        for (size_t i = 0; i + 1 < count; ++i)
          carry(head, states + i * state, states + (i + 1) * state, first + i, 1);
        for (size_t i = count; i-- > 0;)
          back(head, states + i * state, first + i, memory.slopes + head * state,
               parts + i * sizes.part_floats, states + chunk * state);
      });
      run.for_rows(count, heads * sizes.part_floats, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i)
          add(first + i, memory.parts + i * sizes.part_floats, chunk * sizes.part_floats);
      });
    }
  };
  for (size_t row = 0; row < rows.count; row += sizes.length)
    each_document(sizes.length, rows.positions, row, take_part);
}

}  // namespace butterfly::graph
