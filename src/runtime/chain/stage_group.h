// A member of a stage among the others: the exchanges in the middle of layers, and how steps get from the
// first member to the rest.
#pragma once
#include <memory>
#include <vector>

#include "cluster/collective/member_links.h"
#include "graph/exchange.h"

namespace butterfly::runtime {

// The first member gets the stage's messages and passes each on as it came, before it works on it itself; so
// all members do the same in the same order, and what follows on a link is the exchanges of that step. The
// results of a stage are the first member's.
//
// One thread for everything but close(), waiting() and add_links().
class StageGroup final : public graph::Exchange {
 public:
  // links[i] leads to member i; null at `self`.
  StageGroup(std::vector<std::shared_ptr<cluster::Link>> links, size_t self,
             const cluster::MemberLinksOptions& options = {})
      : links_(std::move(links), self, options) {}

  size_t members() const override { return links_.members(); }
  size_t self() const override { return links_.self(); }
  void run(const graph::ExchangeRound& round) override;
  void start(const graph::ExchangeRound& round) override;
  void finish() override { links_.finish().or_throw(); }

  bool is_first() const { return self() == 0; }
  // Of another member than the first: where its steps come from.
  cluster::Link& from_first() const { return links_.link(0); }
  // Of the first: a message of the chain to all others.
  Status pass_on(cluster::MessageHead head, std::span<const std::byte> body, Duration timeout);
  // Exchanges are of this epoch of the chain from now on.
  void begin_epoch(uint64_t epoch) { links_.begin_epoch(epoch); }

  bool waiting() const { return links_.waiting(); }
  // For those who watch over them: links that this member's steps or exchanges will go out on next, and those
  // on which another's are waited for. Members read each other's links during steps only, so `computes` is
  // for those who are not the first. From any thread.
  void add_links(std::vector<cluster::Link*>& to, std::vector<cluster::Link*>& from,
                 bool computes = true) const;
  void close() { links_.close(); }

 private:
  cluster::MemberLinks links_;
};

}  // namespace butterfly::runtime
