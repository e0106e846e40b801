// Pipelines whose members die at any moment, under a scheduler that draws who moves next: the leader's
// machine and the members' with numbers in the place of layers. Whatever happens, the state after the last
// step is that of one machine, which shows every micro-batch that was lost, doubled or of another step.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <set>

#include "base/rng.h"
#include "cluster/training/pipeline_member.h"
#include "cluster/training/train_lead.h"

namespace butterfly::cluster {
namespace {

constexpr size_t kPieces = 6;
constexpr size_t kKillsMax = 12;
constexpr uint64_t kRoom = 100;  // bytes of a member; a piece has 30

uint64_t mix(uint64_t a, uint64_t b, uint64_t c = 0) { return random_u64(a, b, c); }

// The numbers of a network: one for each piece, and the table of a tied head.
struct Weights {
  std::map<uint32_t, uint64_t> pieces;
  uint64_t table = 0;
  friend bool operator==(const Weights&, const Weights&) = default;
};

Weights at_first() {
  Weights weights;
  for (uint32_t i = 0; i < kPieces; ++i) weights.pieces[i] = mix(7, i);
  weights.table = 99;
  return weights;
}

// What the layers [begin, end) do.
uint64_t forward(const Weights& weights, uint32_t begin, uint32_t end, bool tied, uint64_t in, uint64_t step,
                 uint64_t leaf) {
  if (begin == 0) in = mix(step, leaf, tied ? weights.table : 0);
  for (uint32_t i = begin; i < end; ++i) in = mix(in, weights.pieces.at(i), 1);
  return in;
}
uint64_t backward(const Weights& weights, uint32_t begin, uint32_t end, uint64_t gradient,
                  std::map<uint32_t, uint64_t>& sums) {
  for (uint32_t i = end; i-- > begin;) {
    sums[i] += mix(gradient, weights.pieces.at(i), i);
    gradient = mix(gradient, weights.pieces.at(i), 2);
  }
  return gradient;
}
uint64_t loss_gradient(const Weights& weights, bool tied, uint64_t out) {
  return mix(out, 5, tied ? weights.table : 0);
}
uint64_t table_leaf(uint64_t head, uint64_t rows) { return mix(head, rows, 3); }
void update(Weights& weights, const std::map<uint32_t, uint64_t>& sums, uint64_t norm) {
  for (const auto& [piece, sum] : sums) weights.pieces[piece] = mix(weights.pieces[piece], sum, norm);
}
uint64_t square(const std::map<uint32_t, uint64_t>& sums) {
  uint64_t total = 0;
  for (const auto& [piece, sum] : sums) total += mix(sum, piece, 4);
  return total;
}

Weights one_machine(uint64_t steps, size_t leaves, bool tied) {
  Weights weights = at_first();
  for (uint64_t step = 0; step < steps; ++step) {
    std::map<uint32_t, uint64_t> sums;
    uint64_t table = 0;
    for (size_t leaf = 0; leaf < leaves; ++leaf) {
      const uint64_t out = forward(weights, 0, kPieces, tied, 0, step, leaf);
      const uint64_t head = loss_gradient(weights, tied, out);
      uint64_t gradient = head;
      gradient = backward(weights, 0, kPieces, gradient, sums);
      if (tied) table += table_leaf(head, gradient);
    }
    const uint64_t norm = square(sums) + (tied ? mix(table, 1000, 4) : 0);
    update(weights, sums, norm);
    if (tied) weights.table = mix(weights.table, table, norm);
  }
  return weights;
}

struct Message {
  enum Kind { kPlan, kState, kDeal, kCommit, kGather, kRows, kTable } kind;
  TrainPlan plan = {};
  Weights weights = {};
  Epoch epoch = 0;
  uint64_t step = 0;
  size_t leaves = 0, index = 0;
  uint64_t value = 0;
  TrainValues what = TrainValues::kForward;
};

struct Node {
  explicit Node(TrainMemberId id, uint64_t step) : machine(id, step) {}
  PipelineMember machine;
  std::deque<PipelineAction> jobs;
  std::map<TrainMemberId, std::deque<Message>> inbox;  // by who sent; the leader's orders from kTrainLeader
  std::map<TrainMemberId, std::deque<Message>> values;
  Weights weights;
  std::map<uint32_t, uint64_t> sums;
  uint64_t table_sum = 0, norm = 0;
  std::map<size_t, uint64_t> head, inputs;
  std::map<std::pair<TrainValues, size_t>, uint64_t> rows;
  size_t in_flight_seen = 0;
};

class Simulation {
 public:
  Simulation(uint64_t seed, bool tied, bool kills) : seed_(seed), tied_(tied), kills_(kills) {
    leaves_ = 1 + draw(8);
    TrainLeadConfig config;
    config.snapshot_every = 1 + draw(4);
    PipelineConfig pipeline;
    pipeline.pieces.assign(kPieces, {.flops = 1, .bytes = 30, .blocks = 1});
    pipeline.tied_blocks = tied ? 2 : 0;
    pipeline.memory = kRoom;
    pipeline.stages_max = static_cast<uint32_t>(draw(4));
    pipeline.in_flight = static_cast<uint32_t>(1 + draw(4));
    config.pipeline = pipeline;
    config.block_bytes.assign(kPieces + pipeline.tied_blocks, 4);
    lead_.emplace(config);
    snapshot_ = at_first();
    nodes_.emplace(kTrainLeader, Node(kTrainLeader, 0));
    act();
    for (size_t i = 0; i < 2 + draw(3); ++i) join();
  }

  // Until so many steps are done; false: nothing could move any more.
  bool run(uint64_t steps) {
    for (uint64_t step = 1; step <= steps; ++step) {
      lead_->run_until(step, leaves_);
      act();
      if (!until_idle()) return false;
    }
    lead_->want_state();
    act();
    return until_idle();
  }
  const Weights& state() const { return snapshot_; }
  size_t leaves() const { return leaves_; }
  size_t lost() const { return lost_; }
  const TrainLead& lead() const { return *lead_; }
  size_t in_flight_seen() const { return in_flight_seen_; }

 private:
  uint64_t draw(uint64_t below) { return random_u64(seed_, 1, ++draws_) % below; }

  void join() {
    const TrainMemberId id = next_id_++;
    nodes_.emplace(id, Node(id, 0));
    lead_->join({id, {"key" + std::to_string(id), "node"}, "address"}, 1, kRoom);
    act();
  }
  void kill() {
    if (nodes_.size() < 2) return;
    auto it = std::next(nodes_.begin(), static_cast<std::ptrdiff_t>(1 + draw(nodes_.size() - 1)));
    const TrainMemberId id = it->first;
    nodes_.erase(it);
    for (auto& [other, node] : nodes_) node.values.erase(id);  // what was on the way is lost too
    ++lost_;
    lead_->lose(id);
    act();
  }

  bool until_idle() {
    for (size_t moves = 0, still = 0; !lead_->idle(); ++moves) {
      if (moves > 400'000) return false;
      if (kills_ && lost_ < kKillsMax && draw(600) == 0) kill();
      if (nodes_.size() < 4 && draw(150) == 0) join();
      auto it = std::next(nodes_.begin(), static_cast<std::ptrdiff_t>(draw(nodes_.size())));
      const bool moved = draw(2) == 0 ? work(it->second) : deliver(it->first, it->second);
      still = moved ? 0 : still + 1;
      if (still > 20'000) return false;
    }
    return true;
  }

  void queue(Node& node) {
    for (PipelineAction& action : node.machine.take_actions()) node.jobs.push_back(action);
    in_flight_seen_ = std::max(in_flight_seen_, node.machine.in_flight());
  }
  bool work(Node& node) {
    if (node.jobs.empty()) return false;
    const PipelineAction action = node.jobs.front();
    node.jobs.pop_front();
    std::visit([&](const auto& it) { perform(node, it); }, action);
    return true;
  }

  // One message of a link, or nothing if its reader waits.
  bool deliver(TrainMemberId, Node& node) {
    auto& boxes = draw(2) == 0 ? node.inbox : node.values;
    if (boxes.empty()) return false;
    auto it = std::next(boxes.begin(), static_cast<std::ptrdiff_t>(draw(boxes.size())));
    if (it->second.empty()) return false;
    const Message& message = it->second.front();
    if (!take(node, it->first, message)) return false;
    it->second.pop_front();
    queue(node);
    return true;
  }
  bool take(Node& node, TrainMemberId from, const Message& m) {
    PipelineMember& machine = node.machine;
    switch (m.kind) {
      case Message::kPlan:
        machine.plan(m.plan);
        machine.peers_linked(m.plan.epoch);
        node.rows.clear();
        return true;
      case Message::kDeal:
        if (m.epoch == machine.epoch()) node.rows.clear();
        machine.deal(m.epoch, m.step, m.leaves);
        if (!machine.has_stage() && m.epoch == machine.epoch()) {
          queue(node);
          lead_->leaves_done(machine.id(), m.epoch, m.step, 0);
          act();
        }
        return true;
      case Message::kCommit:
        node.norm = m.value;
        machine.commit(m.epoch, m.step);
        return true;
      case Message::kGather:
        machine.gather(m.epoch, m.step);
        return true;
      case Message::kState: {
        const Arrival arrival = machine.state(m.epoch);
        if (arrival == Arrival::kWait) return false;
        EXPECT_NE(arrival, Arrival::kRefuse) << "seed " << seed_;
        if (arrival != Arrival::kTake) return true;
        node.weights = m.weights;
        machine.weights_loaded(m.epoch);
        machine.moments_loaded(m.epoch);
        return true;
      }
      case Message::kRows: {
        const Arrival arrival = machine.rows(m.what, from, m.epoch, m.step, m.index);
        if (arrival == Arrival::kWait) return false;
        EXPECT_NE(arrival, Arrival::kRefuse) << "seed " << seed_ << " rows " << static_cast<int>(m.what);
        if (arrival != Arrival::kTake) return true;
        node.rows[{m.what, m.index}] = m.value;
        machine.rows_taken(m.what, m.epoch, m.step, m.index);
        return true;
      }
      case Message::kTable: {
        const Arrival arrival = machine.table(from, m.epoch, m.step);
        if (arrival == Arrival::kWait) return false;
        EXPECT_NE(arrival, Arrival::kRefuse) << "seed " << seed_ << " table";
        if (arrival != Arrival::kTake) return true;
        node.weights.table = m.value;
        machine.table_ended(m.epoch, m.step, true);
        return true;
      }
    }
    return true;
  }

  void send(TrainMemberId from, TrainMemberId to, Message message) {
    const auto found = nodes_.find(to);
    if (found != nodes_.end()) found->second.values[from].push_back(std::move(message));
  }
  void order(TrainMemberId to, Message message) {
    const auto found = nodes_.find(to);
    if (found != nodes_.end()) found->second.inbox[kTrainLeader].push_back(std::move(message));
  }

  // ---- What a member does ----
  bool current(const Node& node, Epoch epoch) const { return node.machine.epoch() == epoch; }
  const PipelineStage& stage(const Node& node) const {
    return node.machine.plan().stages[node.machine.stage()];
  }
  void perform(Node& node, const ReportReady& it) {
    lead_->ready(node.machine.id(), it.epoch);
    act();
  }
  void perform(Node& node, const BuildStage& it) {
    node.weights = {};
    node.machine.built(it.epoch);
    queue(node);
  }
  void perform(Node& node, const BeginStage& it) {
    if (!current(node, it.epoch)) return;
    node.sums.clear();
    node.head.clear();
    node.inputs.clear();
    node.table_sum = 0;
  }
  void perform(Node& node, const RunForward& it) {
    uint64_t out = 0;
    if (current(node, it.epoch)) {
      const auto [member, begin, end] = stage(node);
      out = forward(node.weights, begin, end, tied_, node.rows[{TrainValues::kForward, it.index}], it.step,
                    it.index);
    }
    node.machine.forward_done(it.epoch, it.step, it.index);
    queue(node);
    if (current(node, it.epoch))
      send(node.machine.id(), node.machine.plan().stages[node.machine.stage() + 1].member,
           {.kind = Message::kRows,
            .epoch = it.epoch,
            .step = it.step,
            .index = it.index,
            .value = out,
            .what = TrainValues::kForward});
  }
  void perform(Node& node, const RunBackward& it) {
    uint64_t gradient = 0;
    const bool is = current(node, it.epoch);
    if (is) {
      const auto [member, begin, end] = stage(node);
      if (node.machine.last()) {
        const uint64_t out = forward(node.weights, begin, end, tied_,
                                     node.rows[{TrainValues::kForward, it.index}], it.step, it.index);
        gradient = node.head[it.index] = loss_gradient(node.weights, tied_, out);
      } else {
        gradient = node.rows[{TrainValues::kBackward, it.index}];
      }
      gradient = backward(node.weights, begin, end, gradient, node.sums);
      if (node.machine.first() && node.machine.last() && tied_)
        node.table_sum += table_leaf(node.head[it.index], gradient);
    }
    node.machine.backward_done(it.epoch, it.step, it.index);
    queue(node);
    if (!is || (node.machine.first() && !node.machine.plan().table_apart())) return;
    const TrainPlan& plan = node.machine.plan();
    const size_t s = node.machine.stage();
    send(node.machine.id(), s == 0 ? plan.stages.back().member : plan.stages[s - 1].member,
         {.kind = Message::kRows,
          .epoch = it.epoch,
          .step = it.step,
          .index = it.index,
          .value = gradient,
          .what = s == 0 ? TrainValues::kTableRows : TrainValues::kBackward});
  }
  void perform(Node& node, const AddTableRows& it) {
    if (current(node, it.epoch))
      node.table_sum += table_leaf(node.head[it.index], node.rows[{TrainValues::kTableRows, it.index}]);
    node.machine.rows_added(it.epoch, it.step, it.index);
    queue(node);
  }
  void perform(Node& node, const ReduceShard& it) {
    if (current(node, it.epoch)) {
      lead_->leaves_done(node.machine.id(), it.epoch, it.step, 1);
      act();
    }
    node.machine.reduced(it.epoch, it.step);
    queue(node);
  }
  void perform(Node& node, const ReportPrepared& it) {
    if (lead_->epoch() == it.epoch)
      squares_[node.machine.id()] =
          square(node.sums) + (node.machine.last() && tied_ ? mix(node.table_sum, 1000, 4) : 0);
    lead_->prepared(node.machine.id(), it.epoch, it.step);
    act();
  }
  void perform(Node& node, const UpdateShard& it) {
    update(node.weights, node.sums, node.norm);
    if (node.machine.last() && tied_) node.weights.table = mix(node.weights.table, node.table_sum, node.norm);
    node.machine.updated(it.epoch, it.step);
    queue(node);
  }
  void perform(Node& node, const SendTable& it) {
    send(node.machine.id(), it.to,
         {.kind = Message::kTable, .epoch = it.epoch, .step = it.step, .value = node.weights.table});
  }
  void perform(Node& node, const StepComplete& it) {
    if (node.machine.id() != kTrainLeader) return;
    lead_->complete(it.epoch, it.step);
    act();
  }
  void perform(Node& node, const ReportState& it) {
    if (current(node, it.epoch) && it.epoch == lead_->epoch() && node.machine.has_stage()) {
      const auto [member, begin, end] = stage(node);
      for (uint32_t i = begin; i < end; ++i) gathered_.pieces[i] = node.weights.pieces.at(i);
      if (node.machine.last()) gathered_.table = node.weights.table;
    }
    lead_->state_report(node.machine.id(), it.epoch, it.step, "");
    act();
  }

  // ---- What the leader does ----
  void act() {
    for (const TrainLeadAction& action : lead_->take_actions())
      std::visit([&](const auto& it) { perform(it); }, action);
  }
  void perform(const BeginEpoch& it) {
    for (const TrainPlan::Member& member : it.plan.members) {
      Message message{.kind = Message::kPlan, .plan = it.plan};
      message.plan.weights_come = it.weights_for.contains(member.id);
      message.plan.moments_come = it.moments_for.contains(member.id);
      const bool comes = message.plan.weights_come;
      order(member.id, std::move(message));
      if (!comes) continue;
      const PipelineStage& cut = it.plan.stages[it.plan.stage_of(member.id)];
      Message state{.kind = Message::kState, .epoch = it.plan.epoch};
      for (uint32_t i = cut.begin; i < cut.end; ++i) state.weights.pieces[i] = snapshot_.pieces.at(i);
      state.weights.table = snapshot_.table;
      order(member.id, std::move(state));
    }
  }
  void perform(const DealStep& it) {
    squares_.clear();
    for (const TrainPlan::Member& member : lead_->plan().members)
      order(member.id, {.kind = Message::kDeal, .epoch = it.epoch, .step = it.step, .leaves = leaves_});
  }
  void perform(const CommitStep& it) {
    uint64_t norm = 0;
    for (const auto& [member, value] : squares_) norm += value;
    for (const TrainPlan::Member& member : lead_->plan().members)
      if (member.id == kTrainLeader || lead_->plan().keeps_state(member.id))
        order(member.id, {.kind = Message::kCommit, .epoch = it.epoch, .step = it.step, .value = norm});
  }
  void perform(const GatherState& it) {
    gathered_ = {};
    for (const TrainPlan::Member& member : lead_->plan().members)
      order(member.id, {.kind = Message::kGather, .epoch = it.epoch, .step = it.step});
  }
  void perform(const KeepSnapshot&) {
    if (!gathered_.pieces.empty()) {
      EXPECT_EQ(gathered_.pieces.size(), kPieces);
      if (!tied_) gathered_.table = snapshot_.table;
      snapshot_ = gathered_;
    }
  }
  void perform(const DropMember& it) { ADD_FAILURE() << it.why; }
  void perform(const CutShort&) { ADD_FAILURE() << "stages end nothing early"; }

  const uint64_t seed_;
  const bool tied_, kills_;
  uint64_t draws_ = 0;
  size_t leaves_ = 1, lost_ = 0, in_flight_seen_ = 0;
  std::optional<TrainLead> lead_;
  std::map<TrainMemberId, Node> nodes_;
  std::map<TrainMemberId, uint64_t> squares_;
  Weights snapshot_, gathered_;
  TrainMemberId next_id_ = 1;
};

TEST(PipelineSimulation, StateOfOneMachine) {
  size_t lost = 0, rolled_back = 0, in_flight = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const bool tied = seed % 2 == 0, kills = seed % 3 != 0;
    Simulation simulation(seed, tied, kills);
    ASSERT_TRUE(simulation.run(8)) << "seed " << seed << " stands still, phase "
                                   << static_cast<int>(simulation.lead().phase());
    ASSERT_EQ(simulation.state(), one_machine(8, simulation.leaves(), tied)) << "seed " << seed;
    lost += simulation.lost();
    rolled_back += simulation.lead().counters().rollbacks;
    in_flight = std::max(in_flight, simulation.in_flight_seen());
  }
  EXPECT_GT(lost, 50);
  EXPECT_GT(rolled_back, 50);
  EXPECT_GE(in_flight, 4);
}

}  // namespace
}  // namespace butterfly::cluster
