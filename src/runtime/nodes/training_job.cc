#include "runtime/nodes/training_job.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "runtime/training/training_leader.h"
#include "train/train_run.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kTellEvery = std::chrono::seconds(10);
constexpr uint64_t kEpochsOfALife = uint64_t{1} << 20;

}  // namespace

uint64_t training_memory(const train::TrainConfig& config) {
  train::TrainRun run(config, train::RunMode::kDry);
  train::Trainer& trainer = run.trainer();
  (void)trainer.executor(config.micro_batch_size);
  const train::TrainerMemory memory = trainer.memory();
  const uint64_t sums = trainer.layout().total() * sizeof(float);
  // The leader has a snapshot of weights and moments, and a sum of gradients beside the trainer's own.
  return memory.frozen + 2 * (memory.weights + memory.optimizer) + memory.gradients + sums +
         memory.activations;
}

Result<cluster::Placement> training_placement(const cluster::PlanQuestion& question, uint64_t bytes,
                                              size_t nodes_max) {
  const auto broken = [&](const cluster::NodeId& a, const cluster::NodeId& b) {
    return std::ranges::count(question.broken, std::pair(a.key, b.key)) > 0;
  };
  const auto has_part = [&](const cluster::NodeId& node) {
    return question.current && question.current->find(node) != nullptr;
  };
  const auto has_room = [&](const cluster::PlanNode& node) {
    return node.ram_free_bytes + (has_part(node.id) ? bytes / 8 : 0) >= bytes;
  };
  const auto self = std::ranges::find(question.nodes, question.coordinator, &cluster::PlanNode::id);
  if (self == question.nodes.end() || !has_room(*self))
    return {Errc::kOutOfMemory,
            fmt::format("training takes {}, the coordinator's node has {}", format_bytes(bytes),
                        format_bytes(self == question.nodes.end() ? 0 : self->ram_free_bytes))};
  cluster::Placement placement;
  const auto add = [&](const cluster::NodeId& node) {
    cluster::StagePlacement stage;
    stage.members = {{.node = node, .memory_bytes = bytes}};
    stage.begin = placement.pieces;
    stage.end = ++placement.pieces;
    placement.stages.push_back(std::move(stage));
  };
  for (const cluster::PlanNode& node : question.nodes) {
    const bool reached = std::ranges::none_of(placement.stages, [&](const cluster::StagePlacement& stage) {
      return broken(stage.first(), node.id) || broken(node.id, stage.first());
    });
    if (nodes_max > 0 && placement.stages.size() + 1 >= nodes_max) break;
    if (node.id != question.coordinator && has_room(node) && reached &&
        !broken(question.coordinator, node.id) && !broken(node.id, question.coordinator))
      add(node.id);
  }
  add(question.coordinator);
  placement.tokens_per_s = placement.pieces;
  if (question.current) {
    placement.current_tokens_per_s = question.current->pieces;
    placement.asked_for = placement.pieces > question.current->pieces;
  }
  return placement;
}

TrainingJob::TrainingJob(Options options) : options_(std::move(options)) {
  thread_ = std::thread([this] { run(); });
}

TrainingJob::~TrainingJob() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wanted_ = in_use_ = false;
    changed_.notify_all();
  }
  thread_.join();
}

Result<JobSteps::Use> TrainingJob::connect(cluster::Epoch, const cluster::Placement& placement,
                                           const std::vector<std::string>&, cluster::NodeId&) {
  std::vector<cluster::NodeId> others;
  for (const cluster::NodeId& node : placement.nodes())
    if (node != options_.self) others.push_back(node);
  return Use([this, others = std::move(others)] {
    const std::lock_guard lock(mutex_);
    placed_ = others;
    in_use_ = wanted_ = true;
    changed_.notify_all();
  });
}

// Who has no part in the next plan is told to free its memory before that plan is here: until then none is
// called.
void TrainingJob::pause(std::function<void()> paused) {
  remove();
  paused();
}

void TrainingJob::remove() {
  const std::lock_guard lock(mutex_);
  in_use_ = false;
}

void TrainingJob::resume() {
  const std::lock_guard lock(mutex_);
  in_use_ = true;
}

bool TrainingJob::connected() const {
  const std::lock_guard lock(mutex_);
  return in_use_ && !ended_;
}

void TrainingJob::rest() {
  std::unique_lock lock(mutex_);
  wanted_ = in_use_ = false;
  changed_.notify_all();
  changed_.wait(lock, [&] { return !works_; });
}

void TrainingJob::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

std::vector<TrainNode> TrainingJob::nodes() const {
  std::vector<TrainNode> up = options_.nodes_up();
  const std::lock_guard lock(mutex_);
  std::erase_if(
      up, [&](const TrainNode& node) { return !in_use_ || std::ranges::count(placed_, node.node) == 0; });
  return up;
}

void TrainingJob::run() {
  // Of this thread, and of all that it starts.
  if (::setpriority(PRIO_PROCESS, 0, 19) != 0) log_warn("training: its priority stays as it is");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || (!ended_ && (wanted_ || cancelled_)); });
    if (stopping_) return;
    works_ = true;
    ++lives_;
    lock.unlock();
    Status status;
    std::string model;
    const bool over = train_for_a_while(status, model);  // at once where it was cancelled
    options_.occupied(false);
    lock.lock();
    works_ = false;
    ended_ = over;
    changed_.notify_all();
    if (!over || stopping_) continue;
    lock.unlock();
    options_.on_end(status, model);
    lock.lock();
  }
}

// True: there is nothing more to do.
bool TrainingJob::train_for_a_while(Status& status, std::string& model) {
  const auto cancelled = [this] {
    const std::lock_guard lock(mutex_);
    return cancelled_;
  };
  if (cancelled()) {
    status = {Errc::kCancelled, "cancelled before it had a place"};
    return true;
  }
  try {
    train::TrainRun run(options_.config);
    options_.occupied(true);
    log_info("training: from step {} of {}", run.step(), run.steps());
    TrainingLeader leader({.run = &run,
                           .name = options_.self.name,
                           .nodes = [this] { return nodes(); },
                           .connect = options_.connect,
                           .first_epoch = options_.first_epoch + lives_ * kEpochsOfALife,
                           .base_id = options_.base_id,
                           .say = [](const std::string& line) { log_info("training: {}", line); }});
    TimePoint told = system_now();
    const train::RunResult result = run.run(
        [&](const train::RunProgress& progress) {
          if (system_now() - told >= kTellEvery) {
            told = system_now();
            log_info("training: step {} of {}, loss {:.4f}", progress.step, progress.steps,
                     progress.report.loss);
          }
          if (options_.on_step && !options_.on_step(run, progress)) cancel();
          const std::lock_guard lock(mutex_);
          return wanted_ && !stopping_ && !cancelled_;
        },
        &leader);
    model = result.model.string();
    if (!result.finished && cancelled()) {
      status = {Errc::kCancelled, fmt::format("cancelled at step {} of {}", result.step, run.steps())};
      return true;
    }
    if (!result.finished) log_info("training: rests at step {}", result.step);
    return result.finished;
  } catch (const Error& error) {
    status = {error.code(), error.what()};
    return true;
  }
}

}  // namespace butterfly::runtime
