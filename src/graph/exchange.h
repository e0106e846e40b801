// What the members of a group that compute the same layers tell each other in the middle of a run. Ops know
// bytes and order; who the members are and what is between them is for those who implement this.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace butterfly::graph {

// Units [begin, end) of something that the members of a group share.
struct MemberRange {
  size_t begin = 0, end = 0;
  size_t count() const { return end - begin; }
  bool empty() const { return begin == end; }
  friend bool operator==(const MemberRange&, const MemberRange&) = default;
};

inline constexpr size_t kEveryMember = SIZE_MAX;

// Whether each member finishes some rows of a sum for all before everybody gets them (ops/exchange.cc): less
// is sent, in two rounds instead of one. All members must agree. Never fewer rows than members.
inline constexpr size_t kMembersToReduce = 3, kRowsToReduce = 8;
inline bool reduces_first(size_t members, size_t rows) {
  return members >= kMembersToReduce && rows >= kRowsToReduce && rows >= members;
}

// One exchange, as one member sees it. Every member knows the sizes of all pieces before they come.
struct ExchangeRound {
  struct Outgoing {
    std::span<const std::byte> bytes;
    size_t to = kEveryMember;  // all others, or this one
  };
  struct Incoming {
    size_t member;
    std::span<std::byte> into;
  };
  std::span<const Outgoing> mine;  // piece behind piece
  std::span<const Incoming> from;  // pieces of one member in the order in which it sends
};

// One member's end. All members run the same graph, so their rounds come in the same order. One thread.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual size_t members() const = 0;
  virtual size_t self() const = 0;
  // Returns when all that is wanted has come. Throws Error that names the member: kPeerLost, kTimeout, or
  // kCorrupt when something else came than was expected; then nothing more comes of this exchange.
  virtual void run(const ExchangeRound& round) = 0;
  // The same in two parts, between which the caller computes: finish() belongs to the first start() that has
  // none yet, and throws as run() does. What the round points to stays until then; run() comes when all that
  // was started is finished.
  virtual void start(const ExchangeRound& round) = 0;
  virtual void finish() = 0;
};

}  // namespace butterfly::graph
