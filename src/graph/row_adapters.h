// Low-rank additions that each row of a run gets or not: those of the adapter that it names. For a model that
// serves several adapters in one batch; where one is part of the model, layers have it in their graphs
// (nn/linear.h).
#pragma once
#include <span>
#include <string>
#include <vector>

#include "graph/ops.h"

namespace butterfly::graph {

// Adds scale * B (A x). The product B A is never formed: at rank r it costs r (in + out) per row instead of
// in * out.
struct LowRank {
  Parameter a;  // [rank, in], floats
  Parameter b;  // [out, rank], floats
  float scale = 1;
  // Of what B gives, these columns, one range behind the other; empty: all.
  std::vector<MemberRange> columns = {};
};

// What one adapter adds, by place in the model: the number that a layer has (`site`). Packed matrices; of
// experts plain floats [experts, rank, in] and [experts, out, rank]; of the embedding A is a table
// [vocabulary, rank]. Immutable.
struct AdapterLayers {
  std::vector<LowRank> sites;  // without `b`: nothing is added there
  size_t rank_max = 0;
  uint64_t bytes = 0;

  // Null: nothing.
  const LowRank* at(size_t site) const {
    return site < sites.size() && sites[site].b ? &sites[site] : nullptr;
  }
};
inline constexpr size_t kNoSite = static_cast<size_t>(-1);

// Of the rows of a value: `of_rows` [rows] i32 is an index into KvStep::adapters, or kNoAdapter. Rows that
// name one adapter should stand together: its matrices are read once for each such run of rows.
struct RowAdapters {
  ValueId of_rows;
  size_t rank = 0;  // at least that of every adapter of the run; 0: no row names any
  explicit operator bool() const { return rank > 0; }
};
inline constexpr int32_t kNoAdapter = -1;

// A x for the adapters of x's rows, at each of these sites: [rows, rank] each; undefined where nothing is
// added. `shard_unit` as for matmul().
std::vector<ValueId> adapter_products(Graph& g, ValueId x, const RowAdapters& adapters,
                                      std::span<const size_t> sites, std::string name, size_t shard_unit = 0);
// Rows of the adapters' tables instead.
ValueId adapter_rows(Graph& g, ValueId ids, const RowAdapters& adapters, size_t site, std::string name);
// y plus scale * B of that. The same kernels as linear() and add_scaled(), so the same bits as a graph with
// that adapter alone.
ValueId add_adapters(Graph& g, ValueId y, ValueId low, const RowAdapters& adapters, size_t site,
                     std::string name);

// The same with the matrices of the expert that a row at its place goes to (MoeRoute); all experts are here.
// `adapters`: of the places, as gather_slots() gives them.
ValueId expert_adapter_products(Graph& g, ValueId x, const MoeRoute& route, const RowAdapters& adapters,
                                size_t site, std::string name, size_t shard_unit = 0);
// Of what B gives, as many columns as y has, from `first` on.
ValueId add_expert_adapters(Graph& g, ValueId y, ValueId low, const MoeRoute& route,
                            const RowAdapters& adapters, size_t site, size_t first, std::string name);

}  // namespace butterfly::graph
