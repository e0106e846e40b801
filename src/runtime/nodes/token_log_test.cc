// The token log through everything that can happen to a cluster: coordinator, workers and scheduler, the real
// state machines, in one simulation. Every text is what it would be alone, token by token, each once and in
// order, whatever epochs it lived through.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>

#include "base/rng.h"
#include "cluster/testing/member_simulation.h"
#include "runtime/engine/testing/scheduler_driver.h"

namespace butterfly::runtime {
namespace {

using testing::FakeChainOptions;
using testing::greedy_text;
using testing::SchedulerDriver;

class TokenLogs final : public cluster::testing::SimulatedEngine {
 public:
  explicit TokenLogs(uint64_t seed) : seed_(seed) {}

  void began(cluster::JobId id) override {
    Job& job = job_of(id);
    while (job.driver->scheduler.requests().size() < 3) submit(job);
    job.driver->begin();
    check(job);
  }
  void ended(cluster::JobId id) override {
    Job& job = job_of(id);
    if (job.driver->plans.empty()) return;
    job.driver->end();
    for (const RequestId request : job.driver->finished) job.driver->scheduler.finish(request);
    check(job);
    finished += job.driver->finished.size();
    for (const RequestId request : job.driver->finished) {
      job.expected.erase(request);
      job.driver->texts.erase(request);
    }
    job.driver->finished.clear();
  }
  void lost(cluster::JobId id) override {
    Job& job = job_of(id);
    carried += job.driver->scheduler.requests().size();
    job.driver->reset();
    check(job);
  }
  // The clients' connections went with the process.
  void restarted(cluster::JobId id) override { jobs_.erase(id); }

  uint64_t finished = 0, carried = 0;  // texts that ended, and those that went through a loss
  std::string problem;

 private:
  struct Job {
    FakeChainOptions chain;
    std::unique_ptr<SchedulerDriver> driver;
    std::map<RequestId, std::vector<int32_t>> expected;
    uint64_t next_id = 1;
  };

  uint64_t draw(uint64_t below) { return random_u64(seed_, 11, draws_++) % below; }

  Job& job_of(cluster::JobId id) {
    Job& job = jobs_[id];
    if (job.driver == nullptr) {
      job.chain.pages = 6 + draw(20);  // few: texts are preempted too
      job.chain.vocab = 16;
      job.chain.loops = draw(2) == 0;  // guesses are right
      job.driver = std::make_unique<SchedulerDriver>(job.chain, SchedulerOptions{});
    }
    return job;
  }
  void submit(Job& job) {
    std::vector<int32_t> prompt;
    for (size_t i = 0, size = 1 + draw(8); i < size; ++i) prompt.push_back(static_cast<int32_t>(i + draw(2)));
    const uint64_t id = job.next_id++;
    const size_t count = 1 + draw(14);
    job.expected[RequestId{id}] = greedy_text(job.chain, prompt, count);
    job.driver->submit(id, std::move(prompt), count).or_throw();
  }
  void check(const Job& job) {
    if (problem.empty()) problem = job.driver->scheduler.inconsistency();
    for (const auto& [id, text] : job.driver->texts) {
      const auto& expected = job.expected.at(id);
      if (text.size() > expected.size() || !std::equal(text.begin(), text.end(), expected.begin()))
        problem = fmt::format("request {} has other tokens than alone", static_cast<uint64_t>(id));
    }
    for (const RequestId id : job.driver->finished)
      if (job.driver->texts.at(id) != job.expected.at(id)) problem = "a text ended before its end";
  }

  const uint64_t seed_;
  uint64_t draws_ = 0;
  std::map<cluster::JobId, Job> jobs_;
};

TEST(TokenLog, EveryTokenOnceWhateverHappensToTheCluster) {
  uint64_t finished = 0, carried = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    TokenLogs logs(seed);
    const auto result =
        cluster::testing::MemberSimulation(seed, {.nodes_max = seed % 10 == 0 ? 20u : 5u, .engine = &logs})
            .run();
    ASSERT_EQ(result.problem, "") << "seed " << seed;
    ASSERT_EQ(logs.problem, "") << "seed " << seed << "\n" << result.story;
    finished += logs.finished;
    carried += logs.carried;
  }
  fmt::print("{} texts ended, {} times one went through the loss of a chain\n", finished, carried);
  EXPECT_GT(finished, 1000u);
  EXPECT_GT(carried, 100u);
}

}  // namespace
}  // namespace butterfly::runtime
