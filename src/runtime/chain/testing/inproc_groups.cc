#include "runtime/chain/testing/inproc_groups.h"

#include <fmt/format.h>

#include "cluster/transport/inproc.h"
#include "runtime/chain/group_chain.h"
#include "runtime/chain/linked_chain.h"

namespace butterfly::runtime::testing {
namespace {

using cluster::Link;

cluster::NodeId node(size_t stage, size_t member) {
  return {fmt::format("{:060}-{}-{}", 0, stage, member), fmt::format("node-{}-{}", stage, member)};
}

}  // namespace

InprocGroups::InprocGroups(const std::filesystem::path& path, const std::vector<SharedStage>& stages,
                           const ChainOptions& options, size_t threads)
    : options_(options) {
  const size_t layers = model::read_config(model::open_model(path)).layers;
  size_t begin = 0;
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    model::GroupShare group;
    uint32_t next = 0;
    for (const uint32_t count : stages[stage].units) {
      const model::UnitRange range{next, next + count, 8};
      group.members.push_back({range, range, range, range});
      next += count;
    }
    if (group.members.size() == 1) group = {};
    auto& row = members_.emplace_back();
    for (size_t member = 0; member < stages[stage].units.size(); ++member) {
      auto& one = row.emplace_back(std::make_unique<Member>(threads));
      LoadOptions load;
      load.range = model::range_of_pieces(begin, stages[stage].end, layers);
      load.group = group;
      load.group.self = member;
      one->model = load_model(path, one->compute.take().pool(), load);
      if (stage + 1 < stages.size() || member > 0)
        one->runner = std::make_unique<StageRunner>(*one->model, one->compute, stage, options_);
    }
    begin = stages[stage].end;
  }
}

InprocGroups::~InprocGroups() { (void)ends(); }

std::unique_ptr<Chain> InprocGroups::start() {
  (void)ends();
  std::vector<std::vector<std::shared_ptr<StageGroup>>> groups;
  for (size_t stage = 0; stage < members_.size(); ++stage) {
    const size_t count = members_[stage].size();
    std::vector<std::vector<std::shared_ptr<Link>>> links(count, std::vector<std::shared_ptr<Link>>(count));
    for (size_t a = 0; a < count; ++a)
      for (size_t b = a + 1; b < count; ++b)
        std::tie(links[a][b], links[b][a]) = cluster::inproc_pair(node(stage, a), node(stage, b));
    auto& row = groups.emplace_back(count);
    for (size_t member = 0; member < count; ++member) {
      for (const auto& link : links[member])
        if (link != nullptr) members_[stage][member]->links.push_back(link);
      if (count > 1) row[member] = std::make_shared<StageGroup>(links[member], member);
    }
  }
  const size_t last = members_.size() - 1;
  const auto run = [&](size_t stage, size_t member, std::shared_ptr<Link> from, std::shared_ptr<Link> to) {
    Member& one = *members_[stage][member];
    for (const auto& link : {from, to})
      if (link != nullptr) one.links.push_back(link);
    threads_.emplace_back(
        [&one, from, to, group = groups[stage][member]] { one.end = one.runner->run(from, to, group); });
  };
  for (size_t stage = 0; stage <= last; ++stage)
    for (size_t member = 1; member < members_[stage].size(); ++member) run(stage, member, nullptr, nullptr);
  const LoadedModel& model = *members_[last][0]->model;
  Compute& compute = members_[last][0]->compute;
  if (last == 0) return std::make_unique<GroupChain>(model, compute, options_, groups[0][0]);
  std::shared_ptr<Link> to_first, from;
  std::tie(to_first, from) = cluster::inproc_pair(node(last, 0), node(0, 0));
  members_[last][0]->links.push_back(to_first);
  auto from_last = to_first;
  for (size_t stage = 0; stage < last; ++stage) {
    std::shared_ptr<Link> to = from, next = to_first;
    if (last > 1) std::tie(to, next) = cluster::inproc_pair(node(stage, 0), node(stage + 1, 0));
    run(stage, 0, from, to);
    from = from_last = next;
  }
  members_[last][0]->links.push_back(from_last);
  return std::make_unique<LinkedChain>(model, compute, last, to_first, from_last, options_, nullptr,
                                       groups[last][0]);
}

void InprocGroups::lose(size_t stage, size_t member) {
  for (const auto& link : members_[stage][member]->links) link->close();
}

std::vector<Status> InprocGroups::ends() {
  for (const auto& row : members_)
    for (const auto& member : row)
      for (const auto& link : member->links) link->close();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  std::vector<Status> all;
  for (const auto& row : members_)
    for (const auto& member : row) {
      member->links.clear();
      if (member->runner != nullptr) all.push_back(member->end);
    }
  return all;
}

}  // namespace butterfly::runtime::testing
