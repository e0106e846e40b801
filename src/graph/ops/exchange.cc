// What a group of members has each computed a part of, brought together.
//
// Everybody sends its part as one run of bytes for each value and gets those of the others, whose sizes
// follow from the owners. Then each finishes for itself, in an order that does not depend on whose a part is:
// sums of logical shards by their tree (kernels/tiles/shards.h), rows of experts and columns by place.
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
    for (size_t m = 0; m < members_of(attrs); ++m)
      if (m != attrs.self && part.kind != ExchangeKind::kExpertRows) incoming += floats_of(part, m, nullptr);
  }
  outputs.push_back(floats(1, std::max<size_t>(1, incoming)));
  return outputs;
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  return {.activation_bytes = value_bytes(g, node)};
}

// A part of the run under way: where everybody's floats are.
struct Gathered {
  std::vector<const float*> at;  // by member; null: it has none
  const int32_t* begins = nullptr;
};

void finish_sums(const ExchangePart& part, const Gathered& gathered, float* out, const RunContext& run) {
  std::vector<kernels::SubtreeSums> sums;
  for (size_t m = 0; m < part.owners.size(); ++m) {
    const auto owned = kernels::subtrees(part.owners[m].begin, part.owners[m].end);
    for (size_t i = 0; i < owned.size(); ++i)
      sums.push_back({owned[i], gathered.at[m] + i * part.cols, owned.size() * part.cols});
  }
  std::ranges::sort(sums, {}, [](const kernels::SubtreeSums& one) { return one.subtree.first; });
  run.for_rows(part.rows, part.cols * sums.size(), [&](size_t begin, size_t end) {
    std::vector<kernels::SubtreeSums> from = sums;
    for (kernels::SubtreeSums& one : from) one.rows += begin * one.stride;
    kernels::sum_subtrees(from, end - begin, out + begin * part.cols, part.cols, 0, part.cols);
  });
}

void place_columns(const ExchangePart& part, const Gathered& gathered, float* out, const RunContext& run) {
  run.for_rows(part.rows, part.cols, [&](size_t begin, size_t end) {
    for (size_t m = 0; m < part.owners.size(); ++m) {
      const MemberRange& owned = part.owners[m];
      for (size_t row = begin; row < end && !owned.empty(); ++row)
        std::copy_n(gathered.at[m] + row * owned.count(), owned.count(), out + row * part.cols + owned.begin);
    }
  });
}

// A run of the op: what is sent, where the rest comes, and what is made of it.
struct Running {
  Running(const Node& of, const RunContext& in);
  ExchangeRound round() const { return {mine, from}; }
  // When all has come.
  void finish();

  const Node& node;
  const RunContext& run;
  std::vector<Gathered> gathered;  // by part
  std::vector<std::span<const std::byte>> mine;
  std::vector<ExchangeRound::Incoming> from;
};

Running::Running(const Node& of, const RunContext& in) : node(of), run(in) {
  const Attrs& attrs = node.attrs<Attrs>();
  gathered.resize(attrs.parts.size());
  size_t input = 0;
  float* room = run.f32(node.outputs.back());
  for (size_t p = 0; p < attrs.parts.size(); ++p) {
    const ExchangePart& part = attrs.parts[p];
    const bool is_owner = !part.owners[attrs.self].empty();
    const float* own = is_owner ? run.f32(node.inputs[input++]) : nullptr;
    Gathered& here = gathered[p];
    here.at.resize(part.owners.size());
    float* out = run.f32(node.outputs[p]);
    if (part.kind == ExchangeKind::kExpertRows) here.begins = run.i32(node.inputs[input++]);
    for (size_t m = 0; m < part.owners.size(); ++m) {
      const size_t count = floats_of(part, m, here.begins);
      if (part.kind == ExchangeKind::kExpertRows) {
        // Places stand in the order of experts, so a member's rows stand together, and come where they stay.
        const size_t first = static_cast<size_t>(here.begins[part.owners[m].begin]) * part.cols;
        if (m == attrs.self && count > 0) std::copy_n(own + first, count, out + first);
        here.at[m] = out + first;
      } else if (m == attrs.self) {
        here.at[m] = own;
      } else if (count > 0) {
        here.at[m] = room;
        room += count;
      }
      if (count == 0) continue;
      if (m == attrs.self)
        mine.push_back(std::as_bytes(std::span(here.at[m], count)));
      else
        from.push_back({m, std::as_writable_bytes(std::span(const_cast<float*>(here.at[m]), count))});
    }
  }
  const Exchange& exchange = run.exchange();
  BF_CHECK(exchange.members() == members_of(attrs) && exchange.self() == attrs.self)
      << "member " << exchange.self() << " of " << exchange.members() << ", the layers are for " << attrs.self
      << " of " << members_of(attrs);
}

void Running::finish() {
  const Attrs& attrs = node.attrs<Attrs>();
  for (size_t p = 0; p < attrs.parts.size(); ++p) {
    float* out = run.f32(node.outputs[p]);
    if (attrs.parts[p].kind == ExchangeKind::kShardSums) finish_sums(attrs.parts[p], gathered[p], out, run);
    if (attrs.parts[p].kind == ExchangeKind::kColumns) place_columns(attrs.parts[p], gathered[p], out, run);
  }
}

void forward(const Node& node, const RunContext& run) {
  Running running(node, run);
  run.exchange().run(running.round());
  running.finish();
}

class Started final : public StartedOp {
 public:
  Started(const Node& node, const RunContext& run) : running_(node, run) {
    run.exchange().start(running_.round());
  }
  // Nothing may come into memory that is gone.
  ~Started() override {
    if (!is_finished_) try {
        running_.run.exchange().finish();
      } catch (const Error&) {  // what ended the run is told already
      }
  }
  void finish() override {
    is_finished_ = true;
    running_.run.exchange().finish();
    running_.finish();
  }

 private:
  Running running_;
  bool is_finished_ = false;
};

std::unique_ptr<StartedOp> start(const Node& node, const RunContext& run) {
  return std::make_unique<Started>(node, run);
}

// Columns [begin, begin + count) of every row.
struct ColumnsAttrs {
  size_t begin, count;
};

std::vector<ValueType> infer_columns(const Graph& g, const Node& node) {
  const auto& [begin, count] = node.attrs<ColumnsAttrs>();
  const ValueType& x = g.type(node.inputs[0]);
  expect_elem(g, node, node.inputs[0], Elem::kF32);
  if (begin > x.cols() || count > x.cols() - begin)
    fail(Errc::kInvalidArgument, "[{}] {}: columns {} to {} of {}", node.op->name, node.name, begin,
         begin + count, x.cols());
  return {floats(x.rows(), count)};
}

Cost cost_columns(const Graph& g, const Node& node, const CostContext&) {
  return {.activation_bytes = 2 * g.type(node.outputs[0]).bytes()};
}

void forward_columns(const Node& node, const RunContext& run) {
  const auto& [begin, count] = node.attrs<ColumnsAttrs>();
  const ValueType& x = run.type(node.inputs[0]);
  const float* from = run.f32(node.inputs[0]);
  float* to = run.f32(node.outputs[0]);
  for (size_t row = 0; row < x.rows(); ++row)
    std::copy_n(from + row * x.cols() + begin, count, to + row * count);
}

}  // namespace

extern const OpType kColumnsOp;
extern const OpType kExchangeOp;
const OpType kColumnsOp{"columns", infer_columns, cost_columns, nullptr, -1, forward_columns};
const OpType kExchangeOp{"exchange", infer, cost, nullptr, -1, forward, nullptr, nullptr, start};

ValueId columns(Graph& g, ValueId x, size_t begin, size_t count, std::string name) {
  return g.add(kColumnsOp, {x}, std::make_shared<ColumnsAttrs>(ColumnsAttrs{begin, count}),
               std::move(name))[0];
}

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
