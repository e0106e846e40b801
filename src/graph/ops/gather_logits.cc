// Rows of logits whose columns several members have computed, brought together at the first of them.
//
// Of a row for which k candidates suffice a member sends its k first ones (larger before smaller, of equals
// the smaller column), and the rest is -infinity: whoever takes the k first of the whole row, or looks for
// the first, finds the same as in all of them. Logits that nobody may choose from, NaN and +infinity, go
// first, so that they are found too.
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/exchange.h"
#include "graph/ops/op_util.h"
#include "kernels/rows/top_values.h"

namespace butterfly::graph {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kFirst = 0;  // the member who gets all

struct Attrs {
  std::vector<MemberRange> owners;  // columns by member
  size_t self;
  size_t cols;
};

// Candidates that a member with so many columns sends of a row; 0: all columns, where that is not more.
size_t sent_of(const MemberRange& owned, int32_t wanted) {
  const auto count = static_cast<size_t>(std::max(wanted, 0));
  return 2 * count < owned.count() ? count : 0;
}

size_t floats_of(const MemberRange& owned, const int32_t* wanted, size_t rows) {
  size_t floats = 0;
  for (size_t row = 0; row < rows; ++row) {
    const size_t count = sent_of(owned, wanted[row]);
    floats += count > 0 ? 2 * count : owned.count();
  }
  return floats;
}

// The whole rows, and behind them room for what comes or goes.
std::vector<ValueType> infer(const Graph& g, const Node& node) {
  const Attrs& attrs = node.attrs<Attrs>();
  const ValueId wanted = node.inputs.back();
  expect_elem(g, node, wanted, Elem::kI32);
  const size_t rows = g.type(wanted).rows(), here = attrs.owners[attrs.self].count();
  size_t next = 0;
  std::vector<MemberRange> owned = attrs.owners;
  std::ranges::sort(owned, {}, &MemberRange::begin);
  for (const MemberRange& range : owned) {
    if (range.empty()) continue;
    expect_equal(node, "columns before those of the next member", next, range.begin);
    next = range.end;
  }
  expect_equal(node, "columns that somebody has", attrs.cols, next);
  if (here > 0) {
    expect_elem(g, node, node.inputs[0], Elem::kF32);
    expect_equal(node, "rows", rows, g.type(node.inputs[0]).rows());
    expect_equal(node, "columns", here, g.type(node.inputs[0]).cols());
  }
  const size_t room = attrs.self == kFirst ? attrs.cols - here : here;
  return {floats(rows, attrs.cols), floats(1, std::max<size_t>(1, rows * room))};
}

Cost cost(const Graph& g, const Node& node, const CostContext&) {
  return {.activation_bytes = value_bytes(g, node)};
}

// Columns as bits beside their values. `first`: the column of row[0].
void pack(const float* row, size_t columns, size_t count, size_t first, float* to) {
  auto* ids = reinterpret_cast<int32_t*>(to);
  kernels::top_values(row, columns, count, ids, to + count);
  for (size_t i = 0; i < count; ++i) ids[i] += static_cast<int32_t>(first);
}

void send(const Attrs& attrs, const float* own, const int32_t* wanted, size_t rows, float* room,
          Exchange& exchange) {
  const MemberRange& owned = attrs.owners[attrs.self];
  float* to = room;
  for (size_t row = 0; row < rows && !owned.empty(); ++row) {
    const float* from = own + row * owned.count();
    if (const size_t count = sent_of(owned, wanted[row]); count > 0) {
      pack(from, owned.count(), count, owned.begin, to);
      to += 2 * count;
    } else {
      to = std::copy_n(from, owned.count(), to);
    }
  }
  const ExchangeRound::Outgoing mine[] = {{std::as_bytes(std::span(room, to)), kFirst}};
  exchange.run({std::span(mine, to == room ? 0 : 1), {}});
}

// A member's floats of one row into their columns; where the next ones are.
const float* place(const Node& node, const MemberRange& owned, int32_t wanted, const float* from,
                   float* out) {
  const size_t count = sent_of(owned, wanted);
  if (count == 0) {
    std::copy_n(from, owned.count(), out + owned.begin);
    return from + owned.count();
  }
  std::fill(out + owned.begin, out + owned.end, -kInfinity);
  const auto* ids = reinterpret_cast<const int32_t*>(from);
  for (size_t i = 0; i < count; ++i) {
    if (ids[i] < 0 || static_cast<size_t>(ids[i]) < owned.begin || static_cast<size_t>(ids[i]) >= owned.end)
      fail(Errc::kCorrupt, "[{}] {}: a member sent column {}, expected one from {} to {}", node.op->name,
           node.name, ids[i], owned.begin, owned.end - 1);
    out[ids[i]] = from[count + i];
  }
  return from + 2 * count;
}

void receive(const Node& node, const Attrs& attrs, const float* own, const int32_t* wanted, size_t rows,
             float* out, float* room, Exchange& exchange) {
  std::vector<ExchangeRound::Incoming> from;
  std::vector<const float*> at(attrs.owners.size());
  for (size_t m = 0; m < attrs.owners.size(); ++m) {
    if (m == attrs.self || attrs.owners[m].empty()) continue;
    const size_t count = floats_of(attrs.owners[m], wanted, rows);
    at[m] = room;
    from.push_back({m, std::as_writable_bytes(std::span(room, count))});
    room += count;
  }
  exchange.run({{}, from});
  for (size_t m = 0; m < attrs.owners.size(); ++m) {
    const MemberRange& owned = attrs.owners[m];
    for (size_t row = 0; row < rows && !owned.empty(); ++row) {
      float* to = out + row * attrs.cols;
      if (m == attrs.self)
        std::copy_n(own + row * owned.count(), owned.count(), to + owned.begin);
      else
        at[m] = place(node, owned, wanted[row], at[m], to);
    }
  }
}

void forward(const Node& node, const RunContext& run) {
  const Attrs& attrs = node.attrs<Attrs>();
  Exchange& exchange = run.exchange();
  BF_CHECK(exchange.members() == attrs.owners.size() && exchange.self() == attrs.self)
      << "member " << exchange.self() << " of " << exchange.members() << ", the layers are for " << attrs.self
      << " of " << attrs.owners.size();
  const float* own = attrs.owners[attrs.self].empty() ? nullptr : run.f32(node.inputs[0]);
  const int32_t* wanted = run.i32(node.inputs.back());
  const size_t rows = run.type(node.inputs.back()).rows();
  float* room = run.f32(node.outputs[1]);
  if (attrs.self == kFirst)
    receive(node, attrs, own, wanted, rows, run.f32(node.outputs[0]), room, exchange);
  else
    send(attrs, own, wanted, rows, room, exchange);
}

}  // namespace

extern const OpType kGatherLogitsOp;
const OpType kGatherLogitsOp{"gather_logits", infer, cost, nullptr, -1, forward};

ValueId gather_logits(Graph& g, ValueId mine, ValueId candidates, size_t cols,
                      std::vector<MemberRange> owners, size_t self, std::string name) {
  std::vector<ValueId> inputs;
  if (!owners[self].empty()) inputs.push_back(mine);
  inputs.push_back(candidates);
  auto attrs = std::make_shared<Attrs>(Attrs{std::move(owners), self, cols});
  return g.add(kGatherLogitsOp, std::move(inputs), std::move(attrs), std::move(name))[0];
}

}  // namespace butterfly::graph
