// A coordinator with events given to it by hand, for tests of what it asks its shell to do.
#pragma once
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "cluster/member/coordinator.h"
#include "cluster/testing/member_samples.h"

namespace butterfly::cluster::testing {

inline CoordinatorConfig quiet_config() {
  CoordinatorConfig config{.incarnation = 7, .self = node_id(0), .address = "10.0.0.0:4711"};
  config.numerics_id = 1;
  config.measure_links = false;
  return config;
}

// For tests: one thread. Drives a coordinator: nodes 0, 1, 2 … on links 10, 11, 12 …, a plan that gives every
// node one of its pieces.
struct CoordinatorDriver : ::testing::Test {
  CoordinatorDriver() { restart(config()); }
  static CoordinatorConfig config() { return quiet_config(); }
  void restart(const CoordinatorConfig& with) {
    machine.emplace(with, now);
    machine->set_job(kFirstJob, {"m", "model", ""}, now);
  }

  void open(int node, LinkNumber link = 0) {
    coordinator.link_opened(link == 0 ? link_of(node) : link, node_id(node), now);
  }
  void join(int node, LinkNumber link = 0, uint64_t instance = 0) {
    open(node, link);
    Join message = join_message(node);
    if (instance != 0) message.instance = instance;
    coordinator.received(link == 0 ? link_of(node) : link, message, now);
  }
  static LinkNumber link_of(int node) { return static_cast<LinkNumber>(node) + 10; }

  void say(int node, ToCoordinator message) { coordinator.received(link_of(node), message, now); }
  // Time passes, and everybody but `silent` beats.
  void pass(Duration duration, std::vector<int> silent = {}) {
    for (Duration done{}; done < duration; done += std::chrono::milliseconds(50)) {
      now += std::chrono::milliseconds(50);
      for (const auto& [key, member] : coordinator.members()) {
        bool quiet = !member.here();
        for (const int node : silent) quiet = quiet || member.id == node_id(node);
        if (!quiet) coordinator.received(member.link, Beat{}, now);
      }
      coordinator.tick(now);
      collect();
    }
  }
  void collect() {
    for (CoordinatorAction& action : coordinator.take_actions()) actions.push_back(std::move(action));
  }
  // All actions of this kind since the last clear().
  template <typename T>
  std::vector<T> all() {
    collect();
    std::vector<T> found;
    for (const CoordinatorAction& action : actions)
      if (const T* one = std::get_if<T>(&action)) found.push_back(*one);
    return found;
  }
  template <typename M>
  std::vector<std::pair<LinkNumber, M>> sent() {
    std::vector<std::pair<LinkNumber, M>> found;
    for (const SendToWorker& action : all<SendToWorker>())
      if (const M* one = std::get_if<M>(&action.message)) found.emplace_back(action.link, *one);
    return found;
  }
  void clear() {
    collect();
    actions.clear();
  }

  static Placement placement(const std::vector<int>& nodes, double tokens_per_s = 1) {
    Placement out;
    out.pieces = static_cast<uint32_t>(nodes.size());
    out.tokens_per_s = tokens_per_s;
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      StagePlacement stage;
      stage.members = {{.node = node_id(nodes[i])}};
      stage.begin = i;
      stage.end = i + 1;
      out.stages.push_back(stage);
    }
    return out;
  }
  const Job& job(JobId id = kFirstJob) const { return *coordinator.job(id); }
  Epoch asked() { return all<MakePlan>().back().question.epoch; }
  void ready(const std::vector<int>& nodes, Epoch epoch) {
    for (const int node : nodes) say(node, Ready{epoch, Errc::kOk, "", 1000, 5});
  }
  void started(const std::vector<int>& nodes, Epoch epoch) {
    for (const int node : nodes) say(node, Started{epoch, Errc::kOk, ""});
  }
  // From nothing to a cluster of nodes 0 … count-1 that serves.
  Epoch serve(int count) {
    std::vector<int> nodes;
    for (int i = 0; i < count; ++i) {
      join(i);
      nodes.push_back(i);
    }
    pass(std::chrono::seconds(1));
    const Epoch epoch = asked();
    coordinator.planned(epoch, placement(nodes, 10), now);
    ready(nodes, epoch);
    started(nodes, epoch);
    EXPECT_EQ(job().serving_epoch(), epoch);
    coordinator.steps_connected(epoch, now);
    clear();
    return epoch;
  }

  TimePoint now{};
  std::optional<Coordinator> machine{std::in_place, config(), TimePoint{}};
  Coordinator& coordinator = *machine;
  std::vector<CoordinatorAction> actions;
};

}  // namespace butterfly::cluster::testing
