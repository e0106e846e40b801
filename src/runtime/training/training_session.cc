#include "runtime/training/training_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/cpu.h"
#include "base/error.h"
#include "base/log.h"
#include "cluster/member/control_message.h"
#include "runtime/training/pipeline_runner.h"
#include "runtime/training/private_file.h"
#include "train/task/lora.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kSessionLook = std::chrono::milliseconds(200);
// A link between members that ended while neither of them was lost: the leader is told after this, for it
// knows of dead ones by itself, and earlier.
constexpr Duration kBrokenMax = std::chrono::seconds(5);
// For links to all other members; who is called waits longer than who calls, so that one of a pair gives up.
constexpr Duration kLinkMax = std::chrono::seconds(10);

}  // namespace

TrainingSession::TrainingSession(Options options) : options_(std::move(options)) {}

TrainingSession::~TrainingSession() { stop(); }

void TrainingSession::stop() {
  options_.leader->close();
  const std::lock_guard lock(mutex_);
  ending_ = true;
  for (const auto& [id, link] : peers_) link->close();
  if (runner_ != nullptr) runner_->stop();
  changed_.notify_all();
}

void TrainingSession::receive_model(const std::filesystem::path& path) {
  std::ofstream out(path, std::ios::binary);
  for (uint64_t left = options_.start.model_bytes; left > 0;) {
    const auto incoming = options_.leader->receive(TrainLink::kPartMax);
    if (!incoming) incoming.status().or_throw();
    if (!incoming->is_values || incoming->values.what != cluster::TrainValues::kModel ||
        incoming->value_bytes == 0 || incoming->value_bytes > left)
      butterfly::fail(Errc::kCorrupt, "[training] {}: expected {} bytes of the model, found another message",
                      options_.leader->peer().name, left);
    PooledArray<std::byte> part(incoming->value_bytes);
    const std::span<std::byte> piece(part.data(), part.size());
    options_.leader->receive_values(*incoming, {&piece, 1}).or_throw();
    out.write(reinterpret_cast<const char*>(part.data()), static_cast<std::streamsize>(part.size()));
    left -= part.size();
  }
  out.close();
  if (!out) butterfly::fail(Errc::kIo, "{}: cannot be written", path.string());
}

train::TrainConfig TrainingSession::config_to_open(const std::filesystem::path& model) const {
  train::TrainConfig config = train::config_of_text(options_.start.config);
  if (!config.base_model.starts_with(kFetchedBase)) return config;
  const std::string id = config.base_model.substr(kFetchedBase.size());
  config.base_model.clear();
  const model::ModelFile written = model::open_model(model);
  if (!train::is_lora_network(written)) return config;
  try {
    train::find_lora_base(config, written);  // a copy may be where the leader has its own
  } catch (const Error& error) {
    if (error.code() != Errc::kNotFound || !options_.fetch_model) throw;
    config.base_model = options_.fetch_model(id).string();
  }
  return config;
}

std::string TrainingSession::open_job() {
  const PrivateFile model("model.gguf");
  receive_model(model.path());
  const cluster::StartTraining& start = options_.start;
  const train::TrainConfig config = train::config_of_text(start.config),
                           opened = config_to_open(model.path());
  const MemberCalls calls{.report = [this](const cluster::ToTrainLead& report) { send_report(report); },
                          .link_to = [this](cluster::TrainMemberId to) { return link_to(to); },
                          .on_complete = nullptr};
  options_.leader->set_socket_bytes(config.wire_socket_bytes);
  std::unique_ptr<MemberWork> runner;
  std::string agreement;
  if (config.pipeline_stages > 0) {
    auto source = std::make_shared<PipelineSource>(
        PipelineSource{.config = config,
                       .steps = start.steps,
                       .network = train::read_stage_source(opened, model.path()),
                       .items = start.items,
                       .threads = options_.threads});
    agreement = pipeline_agreement(config, source->network);
    runner = std::make_unique<PipelineRunner>(
        PipelineRunner::Options{.id = start.you, .step = 0, .source = std::move(source), .calls = calls});
  } else {
    member_ = open_member(opened, start.steps, model.path(), options_.threads);
    agreement = agreement_of(config, *member_.trainer);
    runner = std::make_unique<MemberRunner>(MemberRunner::Options{.id = start.you,
                                                                  .trainer = member_.trainer.get(),
                                                                  .packing = packing_options(config),
                                                                  .bucket_bytes = config.wire_bucket_bytes,
                                                                  .calls = calls});
  }
  if (options_.occupied) options_.occupied(true);
  const std::lock_guard lock(mutex_);
  runner_ = std::move(runner);
  socket_bytes_ = config.wire_socket_bytes;
  if (ending_) runner_->stop();
  return agreement;
}

std::string TrainingSession::run() {
  std::string why;
  std::thread computing, linking;
  try {
    const std::string agreement = open_job();
    options_.leader
        ->send(
            cluster::TrainingAgreed{agreement, options_.address,
                                    options_.memory_bytes > 0 ? options_.memory_bytes : memory_limit_bytes()})
        .or_throw();
    computing = std::thread([this] { compute(); });
    linking = std::thread([this] { keep_linked(); });
    why = obey();
  } catch (const Error& error) {
    why = error.what();
    fail(why);
  }
  stop();
  if (computing.joinable()) computing.join();
  if (linking.joinable()) linking.join();
  std::vector<std::thread> readers;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return serving_ == 0; });
    readers.swap(readers_);
  }
  for (std::thread& reader : readers) reader.join();
  if (runner_ != nullptr) runner_->end_sending();
  return why;
}

void TrainingSession::free_memory() {
  const std::lock_guard lock(mutex_);
  runner_.reset();
  member_ = {};
}

std::string TrainingSession::obey() {
  const LinkReaders::Take take = [this](const TrainLink::Incoming& incoming, bool patient) {
    return obey_one(incoming, patient);
  };
  return runner_->readers().read(*options_.leader, take).text();
}

// On whichever thread reads the leader's link.
Result<LinkReaders::Taken> TrainingSession::obey_one(const TrainLink::Incoming& incoming, bool patient) {
  if (incoming.is_values) return runner_->receive(*options_.leader, cluster::kTrainLeader, incoming, patient);
  const auto message = cluster::decode_to_train_member(incoming.body);
  if (!message) return message.status();
  if (const auto* dealt = std::get_if<cluster::DealtStep>(&*message)) {
    if (Status status = on_deal(*dealt); !status) return status;
  } else if (const auto* commit = std::get_if<cluster::CommitDealtStep>(&*message)) {
    runner_->commit(*commit);
  } else if (const auto* cut = std::get_if<cluster::CutDealtStep>(&*message)) {
    runner_->cut(*cut);
  } else if (const auto* plan = std::get_if<cluster::NewTrainPlan>(&*message)) {
    on_plan(plan->plan);
  } else if (const auto* gather = std::get_if<cluster::GatherTrainState>(&*message)) {
    runner_->gather(*gather);
  } else if (const auto* end = std::get_if<cluster::EndTraining>(&*message)) {
    return Status(Errc::kCancelled, end->why);
  } else {
    return Status(Errc::kCorrupt, "the leader began a second job on one link");
  }
  return LinkReaders::Taken{};
}

// Inputs lie one micro-batch behind the other: ids, values, targets of each.
Status TrainingSession::on_deal(const cluster::DealtStep& dealt) {
  LeafRange own;
  for (const cluster::DealtLeaves& row : dealt.deal)
    if (row.member == options_.start.you) own = row.leaves;
  {
    const std::lock_guard lock(mutex_);
    if (plan_.pipelined()) own = {0, dealt.deal.back().leaves.end};
  }
  MemberInputs inputs;
  if (!own.empty()) {
    const cluster::StartTraining& s = options_.start;
    const size_t leaf = size_t{s.items} * (size_t{s.ids} + s.values + s.targets) * sizeof(int32_t);
    const auto incoming = options_.leader->receive(TrainLink::kPartMax);
    if (!incoming) return incoming.status();
    if (!incoming->is_values || incoming->values.what != cluster::TrainValues::kInputs ||
        incoming->value_bytes != own.size() * leaf)
      return {Errc::kCorrupt,
              fmt::format("[training] {}: expected inputs of {} bytes, found {} of {}",
                          options_.leader->peer().name, own.size() * leaf,
                          incoming->is_values ? "values" : "a message", incoming->value_bytes)};
    auto memory = std::make_shared<PooledArray<std::byte>>(incoming->value_bytes);
    const std::span<std::byte> piece(memory->data(), memory->size());
    if (Status status = options_.leader->receive_values(*incoming, {&piece, 1}); !status) return status;
    const std::byte* at = memory->data();
    const auto take = [&]<typename T>(size_t count, std::span<const T>& into) {
      into = {reinterpret_cast<const T*>(at), count};
      at += count * sizeof(T);
    };
    for (size_t i = 0; i < own.size(); ++i) {
      train::MicroBatch& batch = inputs.batches.emplace_back();
      take(size_t{s.items} * s.ids, batch.tokens);
      take(size_t{s.items} * s.values, batch.pixels);
      take(size_t{s.items} * s.targets, batch.targets);
    }
    inputs.keep = std::move(memory);
  }
  runner_->deal(dealt, std::move(inputs));
  return {};
}

void TrainingSession::compute() {
  try {
    while (!runner_->stopped()) runner_->run_one(kSessionLook);
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

void TrainingSession::fail(const std::string& why) {
  log_warn("training: {}", why);
  (void)options_.leader->send(cluster::TrainingFailed{cluster::shorten(why)});
  options_.leader->close();
}

// ---- Links between members ----

// Values go to owners, and from them to all.
bool TrainingSession::needs_link(const cluster::TrainPlan& plan, cluster::TrainMemberId other) const {
  const cluster::TrainMemberId own = options_.start.you;
  if (plan.pipelined()) return other != cluster::kTrainLeader && plan.neighbours(own, other);
  if (other == own || other == cluster::kTrainLeader) return false;
  if (plan.weights_come &&
      (plan.weights_from == other || std::ranges::find(plan.weights_to, other) != plan.weights_to.end()))
    return true;
  return (plan.shard_of(other) != nullptr || plan.shard_of(own) != nullptr);
}

void TrainingSession::on_plan(const cluster::TrainPlan& plan) {
  runner_->plan(plan);
  const std::lock_guard lock(mutex_);
  plan_ = plan;
  broken_at_.reset();
  for (auto it = peers_.begin(); it != peers_.end();) {
    const auto next = std::next(it);
    if (plan.find(it->first) == nullptr) {
      it->second->close();
      peers_.erase(it);
    }
    it = next;
  }
  changed_.notify_all();
}

// Of two members the one with the larger number calls.
void TrainingSession::keep_linked() {
  cluster::Epoch told = 0, seen = 0;
  TimePoint since = system_now();
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const cluster::TrainPlan plan = plan_;
    if (plan.epoch != seen) {
      seen = plan.epoch;
      since = system_now();
    }
    bool all = true;
    std::string missing;
    bool calls = false, added = false;
    for (const cluster::TrainPlan::Member& member : plan.members) {
      if (ending_ || !needs_link(plan, member.id) || peers_.contains(member.id)) continue;
      all = false;
      missing = fmt::format("{} at {}", member.node.name, member.address);
      if (member.id > options_.start.you || broken_at_) continue;
      calls = true;
      lock.unlock();
      auto opened = options_.connect(member.address, member.node.key);
      std::shared_ptr<TrainLink> link;
      if (opened) {
        link = std::make_shared<TrainLink>(std::move(*opened));
        link->set_socket_bytes(socket_bytes_);
        if (!link->send(cluster::PeerGreeting{options_.start.run, options_.start.you, member.id}))
          link.reset();
      } else {
        log_debug("training: {} at {}: {}", member.node.name, member.address, opened.status().text());
      }
      lock.lock();
      if (link == nullptr || ending_ || plan_.find(member.id) == nullptr) continue;
      peers_[member.id] = link;
      readers_.emplace_back([this, id = member.id, link] { read_peer(id, link); });
      added = true;
    }
    if (added || plan.epoch != plan_.epoch) continue;
    if (all && plan.epoch != told && plan.epoch != 0) {
      told = plan.epoch;
      lock.unlock();
      runner_->peers_linked(told);
      lock.lock();
      continue;
    }
    if (broken_at_ && system_now() - *broken_at_ > kBrokenMax) {
      lock.unlock();
      fail("a link to another member ended, and nobody was lost");
      return;
    }
    if (!all && told != plan.epoch && system_now() - since > (calls ? 1 : 2) * kLinkMax) {
      lock.unlock();
      fail(fmt::format("no link to {}", missing));
      return;
    }
    changed_.wait_for(lock, kSessionLook);
  }
}

void TrainingSession::serve_peer(const cluster::PeerGreeting& greeting, std::shared_ptr<TrainLink> link) {
  {
    std::unique_lock lock(mutex_);
    // Its plan may be here before ours.
    const auto known = [&] { return ending_ || plan_.find(greeting.from) != nullptr; };
    if (!changed_.wait_for(lock, kBrokenMax, known) || ending_) return;
    const cluster::TrainPlan::Member* member = plan_.find(greeting.from);
    if (member->node.key != link->peer().key || greeting.to != options_.start.you) {
      log_warn("training: {} calls itself member {}, which it is not", link->peer().name, greeting.from);
      return;
    }
    link->set_socket_bytes(socket_bytes_);
    peers_[greeting.from] = link;
    ++serving_;
    changed_.notify_all();
  }
  read_peer(greeting.from, link);
  const std::lock_guard lock(mutex_);
  --serving_;
  changed_.notify_all();
}

void TrainingSession::read_peer(cluster::TrainMemberId from, const std::shared_ptr<TrainLink>& link) {
  const LinkReaders::Take take = [&](const TrainLink::Incoming& incoming,
                                     bool patient) -> Result<LinkReaders::Taken> {
    if (!incoming.is_values)
      return Status(Errc::kCorrupt, fmt::format("{} sent a message where only values go", link->peer().name));
    return runner_->receive(*link, from, incoming, patient);
  };
  const Status status = runner_->readers().read(*link, take);
  link->close();
  if (status.code() == Errc::kCorrupt) log_warn("training: {}", status.text());
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(from);
  if (found == peers_.end() || found->second != link) return;
  peers_.erase(found);
  broken_at_ = system_now();
  changed_.notify_all();
}

void TrainingSession::send_report(const cluster::ToTrainLead& report) {
  cluster::ToTrainLead message = report;
  if (auto* done = std::get_if<cluster::LeavesDone>(&message)) {
    const auto add = [&](const cluster::LinkCounters& counters) {
      done->bytes_sent += counters.bytes_sent;
      done->bytes_received += counters.bytes_received;
    };
    add(options_.leader->counters());
    const std::lock_guard lock(mutex_);
    for (const auto& [id, link] : peers_) add(link->counters());
  }
  (void)options_.leader->send(message);
}

std::shared_ptr<TrainLink> TrainingSession::link_to(cluster::TrainMemberId to) {
  if (to == cluster::kTrainLeader) return options_.leader;
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(to);
  return found == peers_.end() ? nullptr : found->second;  // it is gone, and the leader knows or will
}

}  // namespace butterfly::runtime
