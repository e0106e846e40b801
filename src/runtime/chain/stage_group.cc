#include "runtime/chain/stage_group.h"

#include <fmt/format.h>

#include "base/error.h"

namespace butterfly::runtime {

namespace {

std::vector<cluster::MemberLinks::Incoming> incoming(const graph::ExchangeRound& round) {
  std::vector<cluster::MemberLinks::Incoming> from;
  from.reserve(round.from.size());
  for (const auto& [member, into] : round.from) from.push_back({member, into});
  return from;
}

size_t receiver(const graph::ExchangeRound& round) {
  return round.to == graph::kEveryMember ? cluster::MemberLinks::kAll : round.to;
}

}  // namespace

void StageGroup::run(const graph::ExchangeRound& round) {
  links_.run(round.mine, incoming(round), receiver(round)).or_throw();
}

void StageGroup::start(const graph::ExchangeRound& round) {
  links_.start(round.mine, incoming(round), receiver(round));
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
