#include "runtime/chain/stage_group.h"

#include <fmt/format.h>

#include "base/error.h"

namespace butterfly::runtime {

void StageGroup::run(const graph::ExchangeRound& round) {
  std::vector<cluster::MemberLinks::Incoming> from;
  from.reserve(round.from.size());
  for (const auto& [member, into] : round.from) from.push_back({member, into});
  links_.run(round.mine, from, round.to == graph::kEveryMember ? cluster::MemberLinks::kAll : round.to)
      .or_throw();
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
