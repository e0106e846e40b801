// For tests: nodes of a training job in one process, over links in memory or over TCP on loopback.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cluster/testing/test_identity.h"
#include "cluster/transport/inproc.h"
#include "cluster/transport/tcp.h"
#include "runtime/training/train_node.h"
#include "runtime/training/training_worker.h"

namespace butterfly::runtime::testing {

// Nodes that can be reached by name. Of the test's thread, but for up() and connect().
class TrainNodes {
 public:
  explicit TrainNodes(bool tcp = false) {
    if (!tcp) return;
    identity_ = std::make_unique<cluster::testing::TestIdentity>();
    leader_tls_ = identity_->node("leader");
  }
  ~TrainNodes() {
    while (!nodes_.empty()) end(nodes_.begin()->first);
  }

  // `memory_bytes`: what it says it has for training; 0: what this process may use.
  void start(const std::string& name, uint64_t memory_bytes = 0) {
    cluster::NodeId id{"key-" + name + std::to_string(++lives_), name};
    auto node = std::make_unique<Node>();
    std::shared_ptr<cluster::NodeTls> tls;
    if (identity_ != nullptr) {
      tls = identity_->node(name);
      id = tls->self();
      node->listener = cluster::tcp_listen(tls, "127.0.0.1:0").or_throw();
    } else {
      node->listener = network_.listen(id, id.key).or_throw();
    }
    node->id = id;
    node->worker = std::make_unique<TrainingWorker>(TrainingWorker::Options{
        .coordinator = [key = leader().key] { return key; },
        .connect = [this, id, tls](const std::string& address,
                                   const std::string& key) { return connect_over(tls, id, address, key); },
        .address = node->listener->address(),
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
    for (const auto& [name, node] : nodes_) nodes.push_back({node->id, node->listener->address()});
    return nodes;
  }
  ConnectPeer connect() {
    return [this](const std::string& address, const std::string& key) {
      return connect_over(leader_tls_, leader(), address, key);
    };
  }
  // Over links in memory.
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
  cluster::NodeId leader() const {
    return leader_tls_ != nullptr ? leader_tls_->self() : cluster::NodeId{"key-leader", "leader"};
  }
  Result<std::unique_ptr<cluster::Link>> connect_over(const std::shared_ptr<cluster::NodeTls>& tls,
                                                      const cluster::NodeId& id, const std::string& address,
                                                      const std::string& key) {
    if (tls != nullptr) return cluster::tcp_connect(tls, address, key, std::chrono::seconds(5));
    return connect_as(id, address);
  }

  std::unique_ptr<cluster::testing::TestIdentity> identity_;  // null: links in memory
  std::shared_ptr<cluster::NodeTls> leader_tls_;
  cluster::InprocNetwork network_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Node>> nodes_;
  int lives_ = 0;
};

}  // namespace butterfly::runtime::testing
