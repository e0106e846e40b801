// Exchanges between threads of one process, by plain copies: the reference for those over links.
#pragma once
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "graph/exchange.h"

namespace butterfly::runtime::testing {

// A round is over when all members have shown what they send and have taken what they want.
class InprocGroup {
 public:
  explicit InprocGroup(size_t members) : mine_(members) {
    for (size_t i = 0; i < members; ++i) ends_.push_back(std::make_unique<End>(*this, i));
  }
  graph::Exchange& end(size_t member) { return *ends_[member]; }
  // Of one member, in all rounds: what goes to all others is counted once.
  uint64_t bytes_sent(size_t member) const { return ends_[member]->sent; }
  uint64_t rounds() const { return round_ / 2; }
  // Everybody who waits, and who would: kPeerLost.
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  struct End : graph::Exchange {
    End(InprocGroup& of, size_t index) : group(of), member(index) {}
    size_t members() const override { return group.mine_.size(); }
    size_t self() const override { return member; }
    void run(const graph::ExchangeRound& round) override { group.run(*this, round); }
    void start(const graph::ExchangeRound& round) override { started.push_back(round); }
    void finish() override {
      const graph::ExchangeRound round = started.front();
      started.pop_front();
      group.run(*this, round);
    }
    InprocGroup& group;
    const size_t member;
    uint64_t sent = 0;
    std::deque<graph::ExchangeRound> started;
  };

  // Until all members came here.
  void meet() {
    std::unique_lock lock(mutex_);
    const uint64_t here = round_;
    if (++arrived_ == mine_.size()) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return closed_ || round_ != here; });
    if (round_ == here) fail(Errc::kPeerLost, "the group was closed");
  }

  void run(End& end, const graph::ExchangeRound& round) {
    mine_[end.member] = &round;
    for (const auto& piece : round.mine) end.sent += piece.bytes.size();
    meet();
    std::vector<size_t> next(mine_.size());
    std::string wrong;
    for (const auto& [member, into] : round.from) {
      const graph::ExchangeRound& theirs = *mine_[member];
      size_t& piece = next[member];
      const auto is_for_another = [&] {
        return theirs.mine[piece].to != graph::kEveryMember && theirs.mine[piece].to != end.member;
      };
      while (piece < theirs.mine.size() && is_for_another()) ++piece;
      if (piece >= theirs.mine.size() || theirs.mine[piece].bytes.size() != into.size()) {
        wrong = "member " + std::to_string(member) + " sends another piece than is expected";
      } else {
        std::memcpy(into.data(), theirs.mine[piece++].bytes.data(), into.size());
      }
    }
    meet();
    if (!wrong.empty()) fail(Errc::kCorrupt, "{}", wrong);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t arrived_ = 0;
  uint64_t round_ = 0;
  bool closed_ = false;
  std::vector<const graph::ExchangeRound*> mine_;  // of the round under way
  std::vector<std::unique_ptr<End>> ends_;
};

}  // namespace butterfly::runtime::testing
