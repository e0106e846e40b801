// A whole model on this machine as a stage: pages are placed as the engine says.
#pragma once
#include <mutex>

#include "model/kv_memory.h"
#include "runtime/batch_runner.h"
#include "runtime/engine/stage.h"

namespace butterfly::runtime {

struct PagedStageOptions {
  size_t positions = 0;  // of the cache; 0: the model's context
  size_t sequences = 16;
  DType kv_type = DType::kF16;
  size_t rows_max = 512;
  std::mutex* turn = nullptr;  // held while a step computes, where several stages share a pool
};

// Computes in receive(), on the caller's thread and the pool. Borrows model and pool.
class PagedStage final : public Stage {
 public:
  PagedStage(const LoadedModel& model, ThreadPool& pool, const PagedStageOptions& options);

  const StageInfo& info() const override { return info_; }
  Status submit(const StepRequest& request) override;
  StepResult receive(Duration timeout) override;
  Status reset(uint64_t epoch, Duration timeout) override;
  void close() override {}

 private:
  Status apply(const KvCommand& command);
  Status check(const StepRow& row) const;

  StageInfo info_;
  model::KvMemory memory_;
  BatchRunner runner_;
  std::mutex* turn_;
  uint64_t epoch_ = 0;
  std::vector<std::vector<uint32_t>> pages_;  // by sequence
  std::vector<std::span<const uint32_t>> page_views_;
  bool under_way_ = false;
  uint64_t step_ = 0;  // under way
  // Of the step under way.
  std::vector<int32_t> tokens_, selected_, normed_;
  std::vector<graph::KvRow> rows_;
};

}  // namespace butterfly::runtime
