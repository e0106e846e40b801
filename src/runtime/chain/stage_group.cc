#include "runtime/chain/stage_group.h"

#include <fmt/format.h>

#include "base/error.h"

namespace butterfly::runtime {

namespace {

// The same in the words of links.
struct Pieces {
  explicit Pieces(const graph::ExchangeRound& round) {
    mine.reserve(round.mine.size());
    for (const auto& [bytes, to] : round.mine)
      mine.push_back({bytes, to == graph::kEveryMember ? cluster::MemberLinks::kAll : to});
    from.reserve(round.from.size());
    for (const auto& [member, into] : round.from) from.push_back({member, into});
  }
  std::vector<cluster::MemberLinks::Outgoing> mine;
  std::vector<cluster::MemberLinks::Incoming> from;
};

}  // namespace

void StageGroup::run(const graph::ExchangeRound& round) {
  const Pieces pieces(round);
  links_.run(pieces.mine, pieces.from).or_throw();
}

void StageGroup::start(const graph::ExchangeRound& round) {
  const Pieces pieces(round);
  links_.start(pieces.mine, pieces.from);
}

void StageGroup::add_links(std::vector<cluster::Link*>& to, std::vector<cluster::Link*>& from,
                           bool computes) const {
  for (size_t member = 0; member < members(); ++member) {
    if (member == self()) continue;
    if (is_first() || computes) to.push_back(&links_.link(member));
    if (waiting() || member == 0) from.push_back(&links_.link(member));
  }
}

Status StageGroup::pass_on(cluster::MessageHead head, std::span<const std::byte> body, Duration timeout) {
  const std::span<const std::byte> pieces[] = {body};
  for (size_t member = 1; member < members(); ++member)
    if (Status status = links_.link(member).send(head, pieces, timeout); !status)
      return {status.code(),
              fmt::format("member {} ({}): {}", member, links_.link(member).peer().name, status.text())};
  return {};
}

}  // namespace butterfly::runtime
