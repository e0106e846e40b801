// Two stages in one process with TLS links over loopback, each pinned to a CPU of its own: what a chain costs
// without a network.
#pragma once
#include <filesystem>
#include <memory>
#include <thread>

#include "cluster/transport/tcp.h"
#include "runtime/chain/linked_chain.h"
#include "runtime/chain/stage_runner.h"

namespace butterfly::bench {

// The calling thread, and those it starts, run on this CPU alone.
void pin_to(size_t cpu);

// A link over loopback with certificates made for it.
std::pair<std::shared_ptr<cluster::Link>, std::shared_ptr<cluster::Link>> loopback_pair(
    const cluster::TcpOptions& options);

// The piece where the second stage begins so that both read about as many bytes for a token.
size_t balanced_cut(const std::filesystem::path& model);

struct LoopbackOptions {
  size_t cut = 0;  // 0: balanced_cut()
  size_t context = 0;
  bool pin = true;  // the worker to CPU 1; the engine's thread is the caller's business
  std::chrono::microseconds spin{50};
  runtime::ChainOptions chain;
};

// The worker and its thread. One-thread stages.
class LoopbackChain {
 public:
  LoopbackChain(const std::filesystem::path& model, const LoopbackOptions& options);
  ~LoopbackChain();

  std::unique_ptr<runtime::LinkedChain> start(std::shared_ptr<runtime::ChainTimes> times, bool expect = true);
  runtime::StageRunnerStats worker_stats() const { return worker_->stats(); }
  const runtime::LoadedModel& last() const { return *last_; }
  const runtime::LoadedModel& first() const { return *first_; }
  cluster::LinkCounters counters() const { return here_->counters(); }

 private:
  void end();

  LoopbackOptions options_;
  Compute first_compute_{1}, last_compute_{1};
  std::unique_ptr<runtime::LoadedModel> first_, last_;
  std::unique_ptr<runtime::StageRunner> worker_;
  std::shared_ptr<cluster::Link> here_, there_;
  std::thread thread_;
};

}  // namespace butterfly::bench
