// A whole model on this machine: a chain of one stage. Pages are placed as the engine says.
#pragma once
#include "runtime/engine/paged_layers.h"

namespace butterfly::runtime {

// Computes in receive(), on the caller's thread and the pool. Borrows both parameters.
class LocalChain final : public Chain, private CachePages {
 public:
  // BF_CHECKs that the model is whole.
  LocalChain(const LoadedModel& model, Compute& compute, const PagedLayersOptions& options);

  const ChainInfo& info() const override { return layers_.info(); }
  Status submit(const StepRequest& request) override;
  StepResult receive(Duration timeout) override;
  Result<std::vector<std::vector<int32_t>>> draft(const DraftRequest& request) override;
  Status reset(uint64_t epoch, Duration timeout) override;
  Result<std::optional<CacheReport>> resume(uint64_t epoch, std::span<const PageClaim> claims,
                                            Duration timeout) override;
  void for_each(size_t count, FunctionRef<void(size_t)> fn) override { layers_.for_each(count, fn); }
  void close() override { layers_.cancel_fetch(); }
  CachePages* cache_pages() override { return this; }

 private:
  size_t size(graph::PageKind kind) const override { return layers_.page_size(kind); }
  void read(graph::PageKind kind, uint32_t page, std::span<std::byte> into) const override {
    layers_.read_page(kind, page, into);
  }
  void write(graph::PageKind kind, uint32_t page, size_t positions,
             std::span<const std::byte> from) override {
    layers_.write_page(kind, page, positions, from);
  }

  PagedLayers layers_;
  const std::function<double()> row_layer_seconds_;
  uint64_t epoch_ = 0;
  bool under_way_ = false;
  uint64_t step_ = 0;  // under way
};

}  // namespace butterfly::runtime
