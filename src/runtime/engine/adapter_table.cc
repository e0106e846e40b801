#include "runtime/engine/adapter_table.h"

#include <algorithm>

#include "base/check.h"
#include "runtime/layers/loaded_model.h"

namespace butterfly::runtime {

AdapterPtr AdapterTable::add(const LoadedModel& model, const model::AdapterSpec& spec, std::string identity) {
  return add(model, model::open_adapter(spec, model.file), std::move(identity));
}

AdapterPtr AdapterTable::add(const LoadedModel& model, const model::Adapter& adapter, std::string identity) {
  BF_CHECK(!model.adapter_sites.empty()) << "a model whose rows name no adapters";
  auto loaded = std::make_shared<LoadedAdapter>();
  loaded->layers = model::adapter_layers(adapter, model.adapter_sites, model.file);
  loaded->identity = std::move(identity);
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find_if(entries_, [&](const auto& entry) {
    return !loaded->identity.empty() && entry.second.identity == loaded->identity;
  });
  if (known != entries_.end()) {
    if (AdapterPtr here = known->second.adapter.lock()) return here;
    loaded->number = known->first;
  } else {
    loaded->number = entries_.empty() ? 1 : entries_.rbegin()->first + 1;
  }
  entries_[loaded->number] = {loaded->identity, loaded};
  return loaded;
}

AdapterPtr AdapterTable::find(uint32_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(number);
  return found == entries_.end() ? nullptr : found->second.adapter.lock();
}

std::string AdapterTable::identity(uint32_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(number);
  return found == entries_.end() ? std::string() : found->second.identity;
}

}  // namespace butterfly::runtime
