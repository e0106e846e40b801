// The adapters that requests of one engine may name: added and dropped while it runs.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "graph/row_adapters.h"
#include "model/adapter/adapter.h"

namespace butterfly::runtime {

struct LoadedModel;

// In memory for as long as anybody holds it: the name that it is served by, a request that is under way, a
// step.
struct LoadedAdapter {
  uint32_t number = 0;   // what rows have; from 1 on, 0 is the model itself
  std::string identity;  // all that decides what it adds
  graph::AdapterLayers layers;
};
using AdapterPtr = std::shared_ptr<const LoadedAdapter>;

// Thread-safe. Numbers are never given to another adapter; one that comes back with the identity of one
// before has its number, so that what texts left in the cache is found again.
class AdapterTable {
 public:
  // Reads the adapter for a model that was loaded with LoadOptions::adapter_sites. Throws Error as loading
  // the model with it would. `identity`: of the file and its scale; empty: it is like no other.
  AdapterPtr add(const LoadedModel& model, const model::AdapterSpec& spec, std::string identity);
  // The same of one in memory.
  AdapterPtr add(const LoadedModel& model, const model::Adapter& adapter, std::string identity);

  // Null: nobody holds it any more, or it never was.
  AdapterPtr find(uint32_t number) const;
  // Of one that may be gone; empty: the model itself, or it is like no other.
  std::string identity(uint32_t number) const;

 private:
  struct Entry {
    std::string identity;
    std::weak_ptr<const LoadedAdapter> adapter;
  };
  mutable std::mutex mutex_;
  std::map<uint32_t, Entry> entries_;  // every one that ever was: some hundred bytes each
};

}  // namespace butterfly::runtime
