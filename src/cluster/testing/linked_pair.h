// Two ends of a link that is as links between stages are, over any row of the transport table. Only for
// tests.
#pragma once
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "cluster/transport/transport_table.h"

namespace butterfly::cluster::testing {

// Of tests that run as the only rank of a job ('mpirun -n 1 cluster_test', see tests/CMakeLists.txt); else
// null.
inline std::shared_ptr<MpiWorld> mpi_job() {
  struct Job {
    ~Job() {
      if (world != nullptr) world->finish();
    }
    const std::shared_ptr<MpiWorld> world = MpiWorld::why_not().empty() ? MpiWorld::join() : nullptr;
  };
  static const Job job;
  return job.world;
}

// Where a node of this name listens.
inline std::string place_of(const std::string& transport, const std::string& name) {
  return transport == "inproc" ? name : "127.0.0.1:0";
}

// `from` calls `to`, which listens there; the caller's end first.
inline std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> linked_pair(Transport& from, Transport& to,
                                                                           Listener& listener,
                                                                           Duration timeout) {
  auto accepted = std::async(std::launch::async, [&] { return listener.accept(timeout); });
  auto a = from.connect(listener.address(), "", timeout).or_throw();
  auto b = accepted.get().or_throw();
  Hello from_a{.purpose = LinkPurpose::kStage}, from_b;
  from.introduce(from_a, true);
  to.introduce(from_b, false);
  a = from.settle(std::move(a), from_a, from_b, true);
  b = to.settle(std::move(b), from_b, from_a, false);
  return {std::move(a), std::move(b)};
}

}  // namespace butterfly::cluster::testing
