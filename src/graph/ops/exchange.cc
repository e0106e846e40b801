// What a group of members has each computed a part of, brought together.
//
// Everybody sends its part as one run of bytes for each value and gets those of the others, whose sizes
// follow from the owners. Then each finishes for itself, in an order that does not depend on whose a part is:
// sums of logical shards by their tree (kernels/tiles/shards.h), rows of experts and columns by place.
//
// Among three members and more, sums of several rows take two rounds (reduce-scatter and gather): each member
// gets what the others have of its rows, finishes those, and tells them all others. A member sends so
// 2 (n - 1) / n sums instead of n - 1, and nobody adds what another one has added; the bits are the same.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "graph/exchange.h"
#include "graph/ops/op_util.h"
#include "kernels/matmul/subtree_sums.h"

namespace butterfly::graph {
namespace {

struct Attrs {
  std::vector<ExchangePart> parts;
  size_t self;
};

size_t members_of(const Attrs& attrs) { return attrs.parts[0].owners.size(); }

size_t subtrees_of(const MemberRange& shards) { return kernels::subtrees(shards.begin, shards.end).size(); }

// Floats that a member sends of a part. Experts' rows depend on where the router sent them: `begins`, or all.
size_t floats_of(const ExchangePart& part, size_t member, const int32_t* begins) {
  const MemberRange& owned = part.owners[member];
  switch (part.kind) {
    case ExchangeKind::kShardSums:
      return subtrees_of(owned) * part.rows * part.cols;
    case ExchangeKind::kExpertRows:
      return begins == nullptr ? part.rows * part.cols
                               : static_cast<size_t>(begins[owned.end] - begins[owned.begin]) * part.cols;
    case ExchangeKind::kColumns:
      return owned.count() * part.rows;
  }
  return 0;
}

// Columns that `mine` has: subtrees stand side by side in a row.
size_t own_cols(const ExchangePart& part, size_t self) {
  const MemberRange& owned = part.owners[self];
  switch (part.kind) {
    case ExchangeKind::kShardSums:
      return subtrees_of(owned) * part.cols;
    case ExchangeKind::kExpertRows:
      return part.cols;
    case ExchangeKind::kColumns:
      return owned.count();
  }
  return 0;
}

void expect_owners(const Node& node, const ExchangePart& part, size_t members, size_t units) {
  expect_equal(node, "members", members, part.owners.size());
  std::vector<MemberRange> owned = part.owners;
  std::ranges::sort(owned, {}, &MemberRange::begin);
  size_t next = 0;
  for (const MemberRange& range : owned) {
    if (range.empty()) continue;
    expect_equal(node, "units before those of the next member", next, range.begin);
    next = range.end;
  }
  expect_equal(node, "units that somebody has", units, next);
}

// Rows that one member finishes for all.
MemberRange slice_of(const ExchangePart& part, size_t member) {
  const size_t members = part.owners.size();
  return {part.rows * member / members, part.rows * (member + 1) / members};
}

bool is_reduced(const ExchangePart& part) {
  return part.kind == ExchangeKind::kShardSums && reduces_first(part.owners.size(), part.rows);
}

// One result for each part, and behind them room for what comes.
std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  std::vector<ValueType> outputs;
  size_t input = 0, incoming = 0;
  for (const ExchangePart& part : attrs.parts) {
    expect_owners(node, part, members_of(attrs), part.units);
    if (!part.owners[attrs.self].empty()) {
      const ValueType& mine = g.type(node.inputs[input]);
      expect_elem(g, node, node.inputs[input++], Elem::kF32);
      expect_equal(node, "rows", part.rows, mine.rows());
      expect_equal(node, "columns", own_cols(part, attrs.self), mine.cols());
    }
    if (part.kind == ExchangeKind::kExpertRows) {
      expect_elem(g, node, node.inputs[input], Elem::kI32);
      expect_equal(node, "experts", part.units + 1, g.type(node.inputs[input++]).rows());
    }
    outputs.push_back(floats(part.rows, part.cols));
    for (size_t m = 0; m < members_of(attrs); ++m) {
      if (m == attrs.self || part.kind == ExchangeKind::kExpertRows) continue;
      const size_t floats = floats_of(part, m, nullptr);
      incoming += is_reduced(part) ? floats / part.rows * slice_of(part, attrs.self).count() : floats;
    }
  }
  outputs.push_back(floats(1, std::max<size_t>(1, incoming)));
  return outputs;
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  return {.activation_bytes = value_bytes(g, node)};
}

// Sums of some rows of a part, where they are for the moment.
struct Sums {
  std::vector<kernels::SubtreeSums> subtrees = {};

  // Of one member, which has them side by side in rows of `stride`.
  void add(const MemberRange& shards, const float* rows, size_t cols, size_t stride) {
    const auto owned = kernels::subtrees(shards.begin, shards.end);
    for (size_t i = 0; i < owned.size(); ++i) subtrees.push_back({owned[i], rows + i * cols, stride});
  }
  void finish(size_t rows, size_t cols, float* out, const RunContext& run) {
    std::ranges::sort(subtrees, {}, [](const kernels::SubtreeSums& one) { return one.subtree.first; });
    run.for_rows(rows, cols * subtrees.size(), [&](size_t begin, size_t end) {
      std::vector<kernels::SubtreeSums> from = subtrees;
      for (kernels::SubtreeSums& one : from) one.rows += begin * one.stride;
      kernels::sum_subtrees(from, end - begin, out + begin * cols, cols, 0, cols);
    });
  }
};

// at[m]: the columns of member m.
void place_columns(const ExchangePart& part, const std::vector<const float*>& at, float* out,
                   const RunContext& run) {
  run.for_rows(part.rows, part.cols, [&](size_t begin, size_t end) {
    for (size_t m = 0; m < part.owners.size(); ++m) {
      const MemberRange& owned = part.owners[m];
      for (size_t row = begin; row < end && !owned.empty(); ++row)
        std::copy_n(at[m] + row * owned.count(), owned.count(), out + row * part.cols + owned.begin);
    }
  });
}

std::span<const std::byte> bytes_at(const float* at, size_t count) {
  return std::as_bytes(std::span(at, count));
}
std::span<std::byte> room_at(float* at, size_t count) { return std::as_writable_bytes(std::span(at, count)); }

// A run of the op: what is sent, where the rest comes, and what is made of it.
class Running {
 public:
  Running(const Node& node, const RunContext& run);
  ExchangeRound round() const { return {mine_, from_}; }
  // When all has come; runs the second round if there is one.
  void finish();
  Exchange& exchange() const { return run_.exchange(); }

 private:
  void add_rows_of_experts(const ExchangePart& part, const float* own, const int32_t* begins, float* out);
  std::vector<const float*> gather(const ExchangePart& part, const float* own, float*& room);
  void add_sums(const ExchangePart& part, const float* own, float* out, float*& room);
  void add_slices(const ExchangePart& part, const float* own, float* out, float*& room);

  struct Unfinished {
    const ExchangePart& part;
    Sums sums;
    MemberRange rows;
    float* out;
  };
  struct Columns {
    const ExchangePart& part;
    std::vector<const float*> at;  // by member
    float* out;
  };
  const RunContext& run_;
  const size_t self_;
  std::vector<Unfinished> unfinished_;
  std::vector<Columns> columns_;
  std::vector<ExchangeRound::Outgoing> mine_, mine_then_;
  std::vector<ExchangeRound::Incoming> from_, from_then_;
};

Running::Running(const Node& node, const RunContext& run) : run_(run), self_(node.attrs<Attrs>().self) {
  const Attrs& attrs = node.attrs<Attrs>();
  BF_CHECK(exchange().members() == members_of(attrs) && exchange().self() == self_)
      << "member " << exchange().self() << " of " << exchange().members() << ", the layers are for " << self_
      << " of " << members_of(attrs);
  size_t input = 0;
  float* room = run.f32(node.outputs.back());
  for (size_t p = 0; p < attrs.parts.size(); ++p) {
    const ExchangePart& part = attrs.parts[p];
    const float* own = part.owners[self_].empty() ? nullptr : run.f32(node.inputs[input++]);
    float* out = run.f32(node.outputs[p]);
    if (part.kind == ExchangeKind::kExpertRows)
      add_rows_of_experts(part, own, run.i32(node.inputs[input++]), out);
    else if (part.kind == ExchangeKind::kColumns)
      columns_.push_back({part, gather(part, own, room), out});
    else if (is_reduced(part))
      add_slices(part, own, out, room);
    else
      add_sums(part, own, out, room);
  }
}

// Places stand in the order of experts, so a member's rows stand together, and come where they stay.
void Running::add_rows_of_experts(const ExchangePart& part, const float* own, const int32_t* begins,
                                  float* out) {
  for (size_t m = 0; m < part.owners.size(); ++m) {
    const size_t count = floats_of(part, m, begins);
    if (count == 0) continue;
    const size_t first = static_cast<size_t>(begins[part.owners[m].begin]) * part.cols;
    if (m == self_) {
      std::copy_n(own + first, count, out + first);
      mine_.push_back({bytes_at(out + first, count)});
    } else {
      from_.push_back({m, room_at(out + first, count)});
    }
  }
}

// Everybody's part goes to everybody: where each member's will be; null: it has none.
std::vector<const float*> Running::gather(const ExchangePart& part, const float* own, float*& room) {
  std::vector<const float*> at(part.owners.size());
  for (size_t m = 0; m < part.owners.size(); ++m) {
    const size_t count = floats_of(part, m, nullptr);
    if (count == 0) continue;
    at[m] = m == self_ ? own : room;
    if (m == self_) {
      mine_.push_back({bytes_at(own, count)});
    } else {
      from_.push_back({m, room_at(room, count)});
      room += count;
    }
  }
  return at;
}

void Running::add_sums(const ExchangePart& part, const float* own, float* out, float*& room) {
  const auto at = gather(part, own, room);
  Sums sums;
  for (size_t m = 0; m < at.size(); ++m)
    if (at[m] != nullptr) sums.add(part.owners[m], at[m], part.cols, subtrees_of(part.owners[m]) * part.cols);
  unfinished_.push_back({part, std::move(sums), {0, part.rows}, out});
}

void Running::add_slices(const ExchangePart& part, const float* own, float* out, float*& room) {
  const MemberRange mine = slice_of(part, self_);
  const size_t own_stride = subtrees_of(part.owners[self_]) * part.cols;
  Sums sums;
  if (own_stride > 0) sums.add(part.owners[self_], own + mine.begin * own_stride, part.cols, own_stride);
  for (size_t m = 0; m < part.owners.size(); ++m) {
    if (m == self_) continue;
    const MemberRange theirs = slice_of(part, m);
    const size_t stride = subtrees_of(part.owners[m]) * part.cols, coming = mine.count() * stride;
    if (own_stride > 0)
      mine_.push_back({bytes_at(own + theirs.begin * own_stride, theirs.count() * own_stride), m});
    if (coming > 0) {
      sums.add(part.owners[m], room, part.cols, stride);
      from_.push_back({m, room_at(room, coming)});
      room += coming;
    }
    from_then_.push_back({m, room_at(out + theirs.begin * part.cols, theirs.count() * part.cols)});
  }
  unfinished_.push_back({part, std::move(sums), mine, out});
  mine_then_.push_back({bytes_at(out + mine.begin * part.cols, mine.count() * part.cols)});
}

void Running::finish() {
  for (auto& [part, sums, rows, out] : unfinished_)
    sums.finish(rows.count(), part.cols, out + rows.begin * part.cols, run_);
  for (const auto& [part, at, out] : columns_) place_columns(part, at, out, run_);
  if (!mine_then_.empty()) exchange().run({mine_then_, from_then_});
}

void forward(const Node& node, const RunContext& run) {
  Running running(node, run);
  run.exchange().run(running.round());
  running.finish();
}

class Started final : public StartedOp {
 public:
  Started(const Node& node, const RunContext& run) : running_(node, run) {
    running_.exchange().start(running_.round());
  }
  // Nothing may come into memory that is gone.
  ~Started() override {
    if (!is_finished_) try {
        running_.exchange().finish();
      } catch (const Error&) {  // what ended the run is told already
      }
  }
  void finish() override {
    is_finished_ = true;
    running_.exchange().finish();
    running_.finish();
  }

 private:
  Running running_;
  bool is_finished_ = false;
};

std::unique_ptr<StartedOp> start(const Node& node, const RunContext& run) {
  return std::make_unique<Started>(node, run);
}

}  // namespace

extern const OpType kExchangeOp;
const OpType kExchangeOp{"exchange", infer, cost, nullptr, -1, forward, nullptr, nullptr, start};

std::span<const ExchangePart> exchange_parts(const Node& node) {
  if (node.op != &kExchangeOp) return {};
  return node.attrs<Attrs>().parts;
}

std::vector<ValueId> exchange(Graph& g, std::span<const ExchangePart> parts, size_t self, std::string name) {
  std::vector<ValueId> inputs;
  for (const ExchangePart& part : parts) {
    if (!part.owners[self].empty()) inputs.push_back(part.mine);
    if (part.kind == ExchangeKind::kExpertRows) inputs.push_back(part.begins);
  }
  auto attrs = std::make_shared<Attrs>(Attrs{{parts.begin(), parts.end()}, self});
  auto outputs = g.add(kExchangeOp, std::move(inputs), std::move(attrs), std::move(name));
  outputs.pop_back();
  return outputs;
}

}  // namespace butterfly::graph
