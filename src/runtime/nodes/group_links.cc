#include "runtime/nodes/group_links.h"

#include "runtime/nodes/node_door.h"

namespace butterfly::runtime {

model::GroupShare group_share(const cluster::Assignment& work) {
  model::GroupShare group;
  if (work.members.size() < 2) return group;
  const auto range = [](const cluster::Share& share, cluster::ShareKind kind) {
    const cluster::ShareRange& of = share.of(kind);
    return model::UnitRange{of.begin, of.end, of.units};
  };
  for (const cluster::Assignment::Member& member : work.members)
    group.members.push_back({.heads = range(member.share, cluster::ShareKind::kHeads),
                             .columns = range(member.share, cluster::ShareKind::kColumns),
                             .experts = range(member.share, cluster::ShareKind::kExperts),
                             .vocabulary = range(member.share, cluster::ShareKind::kVocabulary)});
  group.self = work.member;
  return group;
}

Status GroupLinks::open(cluster::Transport& transport, cluster::Hello hello, Duration timeout,
                        cluster::NodeId& to_blame) {
  hello.purpose = cluster::LinkPurpose::kStage;
  hello.job = work_.job;
  hello.epoch = work_.epoch;
  for (size_t i = work_.member + 1; i < work_.members.size(); ++i) {
    const cluster::Assignment::Member& member = work_.members[i];
    auto link = open_link(transport, member.address, member.node.key, hello, timeout);
    if (!link) {
      to_blame = member.node;
      return link.status();
    }
    links_[i] = std::move(*link);
  }
  return {};
}

Status GroupLinks::take(StageLinks& links, Duration timeout, cluster::NodeId& to_blame) {
  for (size_t i = 0; i < work_.member; ++i) {
    auto link = links.take(work_.job, work_.epoch, work_.members[i].node, timeout);
    if (!link) {
      to_blame = work_.members[i].node;
      return link.status();
    }
    links_[i] = std::move(*link);
  }
  return {};
}

std::shared_ptr<StageGroup> GroupLinks::group() && {
  if (links_.size() < 2) return nullptr;
  return std::make_shared<StageGroup>(std::move(links_), work_.member);
}

Status probe_members(const cluster::Assignment& work, cluster::Transport& transport,
                     const cluster::Hello& hello, cluster::NodeId& to_blame) {
  for (size_t i = work.member + 1; i < work.members.size(); ++i) {
    const cluster::Assignment::Member& member = work.members[i];
    if (Status status = probe_link(transport, member.address, member.node.key, hello); !status) {
      to_blame = member.node;
      return status;
    }
  }
  return {};
}

}  // namespace butterfly::runtime
