// A chain whose stages have several members, all of them threads of this process. For tests.
#pragma once
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/chain/stage_runner.h"

namespace butterfly::runtime::testing {

// A stage up to piece `end`, and units of eight of each member in it.
struct SharedStage {
  size_t end;
  std::vector<uint32_t> units = {8};
};

// Loads the parts once; chains may be made of them again and again. The last stage's first member is inside
// the chain, the others run here.
class InprocGroups {
 public:
  InprocGroups(const std::filesystem::path& path, const std::vector<SharedStage>& stages,
               const ChainOptions& options = {}, size_t threads = 1);
  ~InprocGroups();

  // New links, and a new run of every worker. Ends the chain before.
  std::unique_ptr<Chain> start();
  // All links of this member are gone, as if its process had died.
  void lose(size_t stage, size_t member);
  // Waits until all workers have ended and says why.
  std::vector<Status> ends();
  StageRunner& worker(size_t stage, size_t member) { return *members_[stage][member]->runner; }
  const LoadedModel& part(size_t stage, size_t member) const { return *members_[stage][member]->model; }

 private:
  struct Member {
    explicit Member(size_t threads) : compute(ThreadPool::Options{.threads = threads, .pin = false}) {}
    Compute compute;
    std::unique_ptr<LoadedModel> model;
    std::unique_ptr<StageRunner> runner;                // null at the last stage's first
    std::vector<std::shared_ptr<cluster::Link>> links;  // of the last start()
    Status end;
  };
  const ChainOptions options_;
  std::vector<std::vector<std::unique_ptr<Member>>> members_;  // by stage
  std::vector<std::thread> threads_;
};

}  // namespace butterfly::runtime::testing
