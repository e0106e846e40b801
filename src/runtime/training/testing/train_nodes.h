// For tests: nodes of a training job in one process, over links in memory.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cluster/transport/inproc.h"
#include "runtime/training/train_node.h"
#include "runtime/training/training_worker.h"

namespace butterfly::runtime::testing {

// Nodes that can be reached by name. Of the test's thread, but for up() and connect().
class TrainNodes {
 public:
  ~TrainNodes() {
    while (!nodes_.empty()) end(nodes_.begin()->first);
  }

  // `memory_bytes`: what it says it has for training; 0: what this process may use.
  void start(const std::string& name, uint64_t memory_bytes = 0) {
    const cluster::NodeId id{"key-" + name + std::to_string(++lives_), name};
    auto node = std::make_unique<Node>();
    node->id = id;
    node->listener = network_.listen(id, id.key).or_throw();
    node->worker = std::make_unique<TrainingWorker>(TrainingWorker::Options{
        .coordinator = [] { return std::string("key-leader"); },
        .connect = [this, id](
                       const std::string& address,
                       const std::string&) { return network_.connect(id, address, std::chrono::seconds(5)); },
        .address = id.key,
        .threads = 1,
        .memory_bytes = memory_bytes});
    node->door = std::thread([raw = node.get()] {
      for (;;) {
        auto link = raw->listener->accept(std::chrono::seconds(100));
        if (!link) return;
        raw->worker->accept(std::move(*link));
      }
    });
    const std::lock_guard lock(mutex_);
    nodes_.emplace(name, std::move(node));
  }
  void end(const std::string& name) {
    std::unique_ptr<Node> node;
    {
      const std::lock_guard lock(mutex_);
      node = std::move(nodes_.at(name));
      nodes_.erase(name);
    }
    node->listener->close();
    node->door.join();
    node->worker->stop();
  }
  std::vector<TrainNode> up() {
    const std::lock_guard lock(mutex_);
    std::vector<TrainNode> nodes;
    for (const auto& [name, node] : nodes_) nodes.push_back({node->id, node->id.key});
    return nodes;
  }
  ConnectPeer connect() {
    return [this](const std::string& address, const std::string&) {
      return connect_as({"key-leader", "leader"}, address);
    };
  }
  Result<std::unique_ptr<cluster::Link>> connect_as(const cluster::NodeId& id, const std::string& address) {
    return network_.connect(id, address, std::chrono::seconds(5));
  }

 private:
  struct Node {
    cluster::NodeId id;
    std::unique_ptr<cluster::Listener> listener;
    std::unique_ptr<TrainingWorker> worker;
    std::thread door;
  };
  cluster::InprocNetwork network_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Node>> nodes_;
  int lives_ = 0;
};

}  // namespace butterfly::runtime::testing
