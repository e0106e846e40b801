// Where a model's layers take what the adapters add that its rows name, so that adapters can come and go
// while it is in memory.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "graph/row_adapters.h"
#include "model/adapter/adapter.h"
#include "model/arch/group_share.h"

namespace butterfly::model {

// One layer, or all experts of one. Its number is its place in the list that the loader made
// (WeightLoader::list_sites()); layers have it as nn::Linear::site.
struct AdapterSite {
  enum class Kind { kMatrix, kExperts, kEmbedding };
  Kind kind;
  std::string target;             // the tensor, as adapters name it
  Shape whole;                    // of that
  std::vector<MemberRange> rows;  // of a matrix: those of B, one range behind the other
};

// The adapter's matrices as the layers take them, the same as if the model had been loaded with it. Throws
// Error as that does, also for a pair that no layer takes.
graph::AdapterLayers adapter_layers(const Adapter& adapter, std::span<const AdapterSite> sites,
                                    const ModelFile& file);

// Rows of a contiguous tensor: a view where they stand together, else a copy (with `values`).
Tensor tensor_rows(const Tensor& whole, const std::vector<MemberRange>& ranges, bool values = true);
// Throws Error kUnsupported: nothing takes what the adapter adds to this tensor.
[[noreturn]] void refuse_pair(const Adapter& adapter, const LoraPair& pair, const ModelFile& file);

}  // namespace butterfly::model
