// One stage of a pipeline: the layers of a range of a network, forward and backward for several micro-batches
// that are on their way at once, and the update of their weights. The sums are those of Trainer, bit for bit.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "graph/executor.h"
#include "train/trainer/batch_inputs.h"
#include "train/trainer/trainer.h"

namespace butterfly::train {

struct StageOptions {
  TrainerOptions trainer = {};          // workers: 1; wire: exact
  std::vector<std::string> names = {};  // of all parameters of the whole network, in their order
  size_t items = 1;                     // of a micro-batch
  size_t in_flight = 1;                 // micro-batches that are on their way at once
  // The head is here, and the embedding whose table it shares is not: rows of gradients come from there.
  bool shares_table = false;
  // The other way round: the embedding is here, and its rows' gradients are for the head's stage.
  bool table_elsewhere = false;
};

// Borrows the network and changes its weights. Of one thread. Micro-batch i runs forward, then backward; at
// most `in_flight` of them, neighbours, are between the two.
class StageTrainer {
 public:
  // Throws Error kInvalidArgument for a network whose parameters are not among the names.
  StageTrainer(const TrainableNetwork& network, const StageOptions& options);
  ~StageTrainer();

  // A step of so many micro-batches begins; what was left of another one is dropped.
  void begin(uint64_t step, const StepShape& shape);
  // `hidden`: rows of the stage before; empty at the first. Returns the rows for the stage behind; of the
  // last one nothing. Valid until this micro-batch's backward().
  std::span<const float> forward(size_t index, const MicroBatch& batch, std::span<const float> hidden);
  // `gradient` of what forward() returned; empty at the last stage. Returns that of `hidden`, or of the rows
  // of the table if its head is elsewhere; else nothing. Valid until the next forward().
  std::span<const float> backward(size_t index, std::span<const float> gradient);
  // With `shares_table`: rows of gradients of this micro-batch's tokens. Behind its backward().
  void add_rows(size_t index, std::span<const int32_t> tokens, std::span<const float> rows);
  LeafReport report(size_t index) const;  // of the last stage, after forward()

  // Once all micro-batches have come back: the sums, and the squares of their blocks in the layout's order.
  std::vector<float> reduce();
  void update(double norm);

  // In the order of the whole network.
  const ParameterLayout& layout() const { return *layout_; }
  std::vector<StateArray> optimizer_state() { return optimizer_->state(); }
  const TrainableNetwork& network() const { return network_; }
  size_t row_bytes() const { return row_floats_ * sizeof(float); }  // of `hidden` of a micro-batch
  bool first() const { return first_; }
  bool last() const { return last_; }
  size_t in_flight() const { return lanes_.size(); }
  TrainerMemory memory() const;

 private:
  struct Lane;
  Lane& lane(size_t index);
  void build(Lane& lane);
  void bind_gradients(Lane& lane, size_t index);
  size_t table_floats() const;
  Shard table_shard() const;

  const TrainableNetwork& network_;
  StageOptions options_;
  bool first_ = false, last_ = false;
  size_t row_floats_ = 0;
  uint64_t step_ = 0;
  StepShape shape_;
  ThreadPool pool_;
  std::vector<size_t> place_;  // in the layout, by the graph's order of parameters
  std::unique_ptr<ParameterLayout> layout_;
  std::unique_ptr<Optimizer> optimizer_;
  // The table's gradients wait for rows from elsewhere, the others do not.
  std::unique_ptr<GradientTree> tree_, table_tree_;
  std::vector<GradientSum> tables_;  // by micro-batch, until its rows come
  GradientSum sum_, table_sum_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

// The numbers that the names `part` have among `all`, in the order of `part`; names that are there twice in
// the order in which they stand. Throws Error kInvalidArgument for a name that is not there.
std::vector<size_t> numbers_among(std::span<const std::string> all, std::span<const std::string> part);

}  // namespace butterfly::train
