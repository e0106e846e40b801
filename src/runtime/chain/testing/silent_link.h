// A link to a machine that may fall silent, as a test says.
#pragma once
#include <string>

#include "cluster/transport/link.h"

namespace butterfly::runtime::testing {

struct SilentLink final : cluster::Link {
  explicit SilentLink(const std::string& name) : id{"key of " + name, name} {}

  const cluster::NodeId id;
  Duration unheard{}, silence{};  // what it sent and nobody acknowledged; what it heard
  size_t beats = 0;
  bool closed = false;

  const cluster::NodeId& peer() const override { return id; }
  Status send(cluster::MessageHead, std::span<const std::span<const std::byte>>, Duration) override {
    return {};
  }
  Result<cluster::MessageHead> receive_head(Duration) override { return Status(Errc::kTimeout, "nothing"); }
  Status receive_body(std::span<std::byte>, Duration) override { return {}; }
  Duration unacknowledged() const override { return unheard; }
  Duration silent() const override { return silence; }
  void beat(Duration) override { ++beats; }
  void close() override { closed = true; }
  cluster::LinkCounters counters() const override { return {}; }
};

}  // namespace butterfly::runtime::testing
