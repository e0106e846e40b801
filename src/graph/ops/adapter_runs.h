// Neighbouring rows that name the same adapter.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/row_adapters.h"

namespace butterfly::graph {

struct AdapterRun {
  size_t begin, end;  // rows
  int32_t adapter;
  size_t count() const { return end - begin; }
};

// fn(run) for each, in order; rows that name none are in no run.
template <typename F>
void each_adapter_run(std::span<const int32_t> adapters, F&& fn) {
  for (size_t begin = 0; begin < adapters.size();) {
    size_t end = begin + 1;
    while (end < adapters.size() && adapters[end] == adapters[begin]) ++end;
    if (adapters[begin] != kNoAdapter) fn(AdapterRun{begin, end, adapters[begin]});
    begin = end;
  }
}

}  // namespace butterfly::graph
