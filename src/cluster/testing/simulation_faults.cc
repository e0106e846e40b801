// What goes wrong, and what must hold at the end.
#include <fmt/format.h>

#include <algorithm>

#include "cluster/testing/simulation_parts.h"

namespace butterfly::cluster::testing {

// ---- Faults ----

void MemberSimulation::one_fault() {
  if (now_ >= peace_at_) return;
  after(delay(milliseconds(50), seconds(3)) * 4 / static_cast<int64_t>(std::max<size_t>(4, nodes_.size())),
        [this] { one_fault(); });
  const size_t node = draw(nodes_.size());
  Node& n = *nodes_[node];
  const Duration rest = peace_at_ - now_;
  const auto until = [&](Duration most) { return now_ + std::min(rest, delay(milliseconds(100), most)); };
  switch (draw(12)) {
    case 0:
    case 1:
      if (node == 0 || !n.worker) break;
      ++result_.faults["killed"];
      kill_node(node, chance(0.3));
      at(until(seconds(6)), [this, node] {
        if (!nodes_[node]->worker) start_node(node);
      });
      break;
    case 2:
      ++result_.faults["stopped"];
      n.stopped_until = until(seconds(6));
      break;
    case 3:
      ++result_.faults["stuck"];
      n.stuck_until = until(seconds(6));
      break;
    case 4:
      if (node == 0) break;
      ++result_.faults["cut off"];
      n.cut_off_until = until(seconds(6));
      break;
    case 5:
      ++result_.faults["link lost"];
      if (n.link != 0) break_link(n.link, chance(0.8), chance(0.8));
      break;
    case 6:
      if (node == 0 || !n.worker || !chance(0.3)) break;
      ++result_.faults["left"];
      in_node(node, Duration{}, [this, node] {
        nodes_[node]->worker->leave("it leaves", now_);
        after(milliseconds(200), [this, node] { kill_node(node, false); });
        after(seconds(1) + delay(Duration{}, seconds(3)), [this, node] {
          if (!nodes_[node]->worker) start_node(node);
        });
      });
      break;
    case 7:
      if (node == 0 || !chance(0.15)) break;
      in_coordinator(Duration{}, [this, node] {
        if (!coordinator_->remove_node(nodes_[node]->id.name, now_).ok()) return;
        ++result_.faults["removed"];
        removed_.insert(nodes_[node]->id.key);
      });
      break;
    case 9:
    case 10: {
      const size_t other = draw(nodes_.size());
      if (other == node) break;
      ++result_.faults["pair cut"];
      cut_until_[{node, other}] = until(seconds(8));
      if (chance(0.5)) cut_until_[{other, node}] = until(seconds(8));
      break;
    }
    case 11: {
      JobRun& job = *jobs_[draw(jobs_.size())];
      if (coordinator_ && job.wanted && chance(0.3)) end_job(job);
      break;
    }
    default:
      if (!coordinator_) break;
      if (chance(0.2)) {
        ++result_.faults["coordinator restarted"];
        restart_coordinator();
      } else {
        ++result_.faults["coordinator stopped"];
        coordinator_stopped_until_ = until(seconds(4));
      }
      break;
  }
}

void MemberSimulation::check_end() {
  result_.could_serve = could_serve();
  std::string why;
  size_t served = 0;
  for (const auto& job : jobs_) {
    result_.served += served_epoch(job->id) != 0;
    // A planned change may be under way, and loads for a while.
    served += now_ - job->step_at < kLately;
    if (served_epoch(job->id) != 0) continue;
    const std::string reason = coordinator_->job(job->id)->why_not_serving();
    if (reason.empty()) broke("nothing is served, for no reason");
    why += fmt::format("; job {}: {}", job->id, reason);
  }
  if (has_hostile()) {  // may break what it is part of, again and again, but not for all time
    if (result_.could_serve > 0 && result_.steps == steps_in_peace_)
      broke("nothing is served any more" + why);
    return;
  }
  if (served < result_.could_serve)
    broke(fmt::format("{} jobs are served, and there is memory for {}{}", served, result_.could_serve, why));
  // What cannot be served for want of nodes is tried and given up for ever; what can is not.
  if (result_.could_serve == jobs_.size() && coordinator_->counters().halts > halts_in_peace_ + jobs_.size())
    broke(fmt::format("{} halts in peace", coordinator_->counters().halts - halts_in_peace_));
}

// Whatever a member with a valid certificate may send.
void MemberSimulation::one_lie(size_t node) {
  after(delay(milliseconds(20), seconds(1)), [this, node] { one_lie(node); });
  const Node& n = *nodes_[node];
  if (!n.worker || n.link == 0) return;
  ++result_.faults["lies"];
  const JobRun& job = *jobs_[draw(jobs_.size())];
  const Epoch epoch = chance(0.8) ? job.epoch + draw(2) : draw(1000);
  const NodeId peer = nodes_[draw(nodes_.size())]->id;
  const Errc code = chance(0.5) ? Errc::kOk : Errc::kPeerLost;
  switch (draw(8)) {
    case 0:
      return deliver(n.link, false, encode(ToCoordinator(Trouble{epoch, peer, "it says so", job.id})));
    case 1:
      return deliver(n.link, false,
                     encode(ToCoordinator(LinkReport{peer, code, "", {1e-9, 1e15, {{1024, 1e-9}}}})));
    case 2:
      return deliver(n.link, false, encode(ToCoordinator(Prepared{epoch, code, "", peer, job.id})));
    case 3:
      return deliver(n.link, false, encode(ToCoordinator(Ready{epoch, code, "", UINT64_MAX, 0, job.id})));
    case 4:
      return deliver(n.link, false, encode(ToCoordinator(Started{epoch, code, "", job.id})));
    case 5:
      return deliver(n.link, false, encode(ToCoordinator(Beat{UINT64_MAX / 2, {}})));
    case 6:
      return deliver(n.link, false, encode(ToCoordinator(Join{})));
    default:
      return deliver(n.link, false, std::vector<std::byte>(draw(40), std::byte(draw(256))));
  }
}

void MemberSimulation::run_in_peace() {
  static constexpr Duration kJoined = seconds(3);
  // The last plan that came to be served before the kill is the one that stays.
  at(now_ + kPeaceKill, [this] {
    for (const auto& job : jobs_)
      result_.to_serve = std::max(result_.to_serve, job->served_at - (TimePoint{} + kJoined));
    const Placement& placement = jobs_.front()->placement;
    if (placement.stages.size() < 2) return broke("nothing is served, or on one node");
    // Not the coordinator's own.
    const size_t stage = draw(placement.stages.size());
    const size_t found = index_of(placement.stages[stage].first());
    const size_t killed = found != 0 ? found : index_of(placement.stages[stage == 0 ? 1 : stage - 1].first());
    for (const auto& job : jobs_)
      job->stepped_at = job->placement.find(nodes_[killed]->id) ? TimePoint{} : now_;
    kill_node(killed, false);
    for (const auto& job : jobs_) {
      job->killed_at = now_;
      job->killed_epoch = job->epoch;
    }
  });
  at(end_at_ - kStable, [this] {
    for (const auto& job : jobs_) {
      if (job->stepped_at == TimePoint{}) return broke("no step after the kill");
      result_.to_recover = std::max(result_.to_recover, job->stepped_at - job->killed_at);
    }
  });
}

}  // namespace butterfly::cluster::testing
