#include "model/arch/adapter_sites.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/mapped_file.h"

namespace butterfly::model {

Tensor tensor_rows(const Tensor& whole, const std::vector<MemberRange>& ranges, bool values) {
  const auto rows = [&](size_t begin, size_t end) {
    return whole.slice(0, static_cast<int64_t>(begin), static_cast<int64_t>(end));
  };
  size_t count = 0;
  for (const MemberRange& range : ranges) count += range.count();
  if (count == static_cast<size_t>(whole.size(0)) && ranges.size() == 1) return whole;
  if (ranges.size() == 1) return rows(ranges[0].begin, ranges[0].end);
  Tensor copy = rows(0, count);  // as large
  if (!values) return copy;
  MappedFile::guard([&] { copy = copy.clone(); });
  std::byte* to = copy.raw();
  for (const MemberRange& range : ranges) {
    const Tensor from = rows(range.begin, range.end);
    MappedFile::guard([&] { std::memcpy(to, from.raw(), from.bytes()); });
    to += from.bytes();
  }
  return copy;
}

void refuse_pair(const Adapter& adapter, const LoraPair& pair, const ModelFile& file) {
  fail(Errc::kUnsupported, "{}: changes {}, which {} in {}", adapter.path.string(), pair.target,
       file.has(pair.target) ? "is not a matrix that adapters can add to" : "does not exist",
       file.path().string());
}

namespace {

graph::LowRank at_site(const Adapter& adapter, const LoraPair& pair, const AdapterSite& site,
                       const ModelFile& file) {
  switch (site.kind) {
    case AdapterSite::Kind::kEmbedding: {
      graph::LowRank low = low_rank_rows(adapter, pair, file, site.whole);
      low.b.value = {};
      return low;
    }
    case AdapterSite::Kind::kExperts: {
      const nn::ExpertLowRank all =
          low_rank_experts(adapter, pair, file, site.whole, 0, static_cast<size_t>(site.whole[0]));
      return {.a = all.a, .b = all.b, .scale = all.scale};
    }
    case AdapterSite::Kind::kMatrix:
      break;
  }
  graph::LowRank low =
      low_rank(adapter, pair, file, site.whole, [&](const Tensor& b) { return tensor_rows(b, site.rows); });
  low.a.value = low.b.value = {};  // the packed form is enough
  return low;
}

uint64_t bytes_of(const graph::Parameter& parameter) {
  return parameter.packed ? parameter.packed.bytes() : parameter.value.bytes();
}

}  // namespace

graph::AdapterLayers adapter_layers(const Adapter& adapter, std::span<const AdapterSite> sites,
                                    const ModelFile& file) {
  graph::AdapterLayers layers;
  layers.sites.resize(sites.size());
  for (const LoraPair& pair : adapter.pairs) {
    bool taken = false;
    for (size_t i = 0; i < sites.size(); ++i) {
      if (sites[i].target != pair.target) continue;
      taken = true;
      const graph::LowRank& low = layers.sites[i] = at_site(adapter, pair, sites[i], file);
      layers.bytes += bytes_of(low.a) + bytes_of(low.b);
    }
    if (!taken) refuse_pair(adapter, pair, file);
    layers.rank_max = std::max(layers.rank_max, static_cast<size_t>(pair.rank()));
  }
  return layers;
}

}  // namespace butterfly::model
