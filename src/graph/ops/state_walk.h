// How an op with a recurrent state walks over the rows of a step: from which state, through which rows, and
// where the state is written down.
#pragma once
#include <algorithm>
#include <atomic>

#include "graph/ops/op_util.h"

namespace butterfly::graph {

// Bytes of state that `rows` rows of one sequence read and write: once for each block.
inline uint64_t state_traffic(uint64_t rows, uint64_t state_floats) {
  return 2 * sizeof(float) * state_floats * ((rows + kernels::kKvPage - 1) / kernels::kKvPage);
}

// One run of rows of one sequence in one layer. Positions are counted from the state that it begins with: the
// replayed rows come first, then the certain ones. Borrows the step.
class StateWalk {
 public:
  StateWalk(const KvStep& kv, const StatePlace& place, const StateRun& run)
      : layer_(kv.layers[place.layer]), run_(run), pages_(kv.pages(layer_, run.sequence)) {}

  const StateRun& run() const { return run_; }
  size_t length() const { return run_.replayed + run_.certain; }  // rows that change the state
  // The state to begin with; not to be read where run().from is kNoPage: zeros then.
  const float* from(const StatePlace& place) const {
    return state(place, run_.from == kNoPage ? 0 : run_.from);
  }
  float* state(const StatePlace& place, uint32_t page) const {
    return layer_.state(page) + place.state_offset;
  }
  // What the layer keeps of guess `index`.
  float* guess(const StatePlace& place, size_t index) const {
    return layer_.guesses + (run_.sequence * kGuessesMax + index) * layer_.guess_floats + place.guess_offset;
  }

  // The end of the block that row `passed` is in, or of all rows.
  size_t block_end(size_t passed) const {
    const size_t seen = run_.seen() + passed;
    return std::min(length(), passed + kernels::kKvPage - seen % kernels::kKvPage);
  }
  // The page for the state behind row `passed` - 1; kNoPage: it is not wanted.
  uint32_t page_behind(size_t passed) const {
    const size_t block = (run_.seen() + passed - 1) / kernels::kKvPage;
    return block < pages_.size() ? pages_[block] : kNoPage;
  }
  // fn(rows passed, page) wherever the state is written down, in order.
  template <typename F>
  void for_each_kept(F&& fn) const {
    for (size_t passed = 0; passed < length();) {
      passed = block_end(passed);
      if (const uint32_t page = page_behind(passed); page != kNoPage) fn(passed, page);
    }
  }

 private:
  const KvLayer& layer_;
  const StateRun& run_;
  std::span<const uint32_t> pages_;
};

// Carries the state of one unit through the rows of a walk: `state(page)` is where it is written down,
// `step(from, to, begin, end)` takes rows [begin, end), at most a block of them, and begins with zeros where
// `from` is null. Where no page wants the state, and behind the guesses, it goes to `spare`.
template <typename State, typename Step>
void carry_state(const StateWalk& walk, float* spare, const State& state, const Step& step) {
  const StateRun& rows = walk.run();
  const float* from = rows.from == kNoPage ? nullptr : state(rows.from);
  for (size_t passed = 0, end; passed < walk.length(); passed = end) {
    end = walk.block_end(passed);
    const uint32_t page = walk.page_behind(end);
    float* to = page == kNoPage ? spare : state(page);
    step(from, to, passed, end);
    from = to;
  }
  if (rows.certain != rows.rows) step(from, spare, walk.length(), rows.replayed + rows.rows);
}

// fn(walk, unit, worker) for each run and each of `units` parts of the state that do not see each other.
template <typename F>
void for_each_state_unit(const RunContext& run, const StatePlace& place, size_t units, F&& fn) {
  const KvStep& kv = run.kv();
  BF_CHECK(place.layer < kv.layers.size() && kv.layers[place.layer].kind == PageKind::kState &&
           !kv.state_runs.empty())
      << "the cache has no recurrent state for layer " << place.layer;
  std::atomic<size_t> next{0};
  run.pool().run([&](size_t worker) {
    for (size_t i = next.fetch_add(1); i < units * kv.state_runs.size(); i = next.fetch_add(1))
      fn(StateWalk(kv, place, kv.state_runs[i / units]), i % units, worker);
  });
}

}  // namespace butterfly::graph
