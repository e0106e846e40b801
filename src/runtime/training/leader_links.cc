#include "runtime/training/leader_links.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kWatchEvery = std::chrono::milliseconds(100);
constexpr Duration kAgreeMax = std::chrono::seconds(120);  // until a node has built its network
constexpr Duration kCallAgain = std::chrono::seconds(1);   // after nobody answered,
constexpr Duration kAskAgain = std::chrono::seconds(30);   // or after it said no
constexpr size_t kModelPart = size_t{64} << 20;

}  // namespace

LeaderLinks::~LeaderLinks() {
  end("the run is over");
  if (watcher_.joinable()) watcher_.join();
  for (std::thread& caller : callers_) caller.join();
  for (auto& [id, remote] : remotes_)
    if (remote.reader.joinable()) remote.reader.join();
  for (std::thread& reader : ended_) reader.join();
}

void LeaderLinks::start() {
  watcher_ = std::thread([this] { watch(); });
}

void LeaderLinks::end(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(ending_, true)) return;
  for (auto& [id, remote] : remotes_) {
    (void)remote.link->send(cluster::EndTraining{why});
    remote.link->close();
  }
  for (auto& [id, link] : calling_) link->close();
  changed_.notify_all();
}

void LeaderLinks::watch() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    lock.unlock();
    const std::vector<TrainNode> up = options_.nodes();
    lock.lock();
    const TimePoint now = system_now();
    for (const TrainNode& node : up) {
      const auto wait = not_before_.find(node.node.key);
      if (ending_ || by_key_.contains(node.node.key) || (wait != not_before_.end() && wait->second > now))
        continue;
      const cluster::TrainMemberId id = next_id_++;
      by_key_[node.node.key] = id;
      callers_.emplace_back([this, node, id] { call(node, id); });
    }
    // Who is dead by its heartbeats may hold a link all the same: stopped, or behind a cable that was cut.
    for (auto& [id, remote] : remotes_)
      if (std::ranges::none_of(up,
                               [&](const TrainNode& node) { return node.node.key == remote.row.node.key; }))
        remote.link->close();
    changed_.wait_for(lock, kWatchEvery);
  }
}

void LeaderLinks::call(const TrainNode& node, cluster::TrainMemberId id) {
  const auto give_up = [&](const std::string& why, Duration wait) {
    log_info("training: {}: {}", node.node.name, why);
    const std::lock_guard lock(mutex_);
    calling_.erase(id);
    by_key_.erase(node.node.key);
    not_before_[node.node.key] = system_now() + wait;
  };
  auto opened = options_.connect(node.address, node.node.key);
  if (!opened) return give_up(opened.status().text(), kCallAgain);
  const auto link = std::make_shared<TrainLink>(std::move(*opened));
  link->set_socket_bytes(options_.socket_bytes);
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return;
    calling_[id] = link;
  }
  cluster::TrainingAgreed agreed;
  Duration hold = kCallAgain;
  if (const Status status = agree(*link, id, agreed, hold); !status) return give_up(status.text(), hold);
  events_.agreed({id, node.node, agreed.address}, link, agreed.memory_bytes);
}

// `hold`: how long to leave it alone where it fails.
Status LeaderLinks::agree(TrainLink& link, cluster::TrainMemberId id, cluster::TrainingAgreed& agreed,
                          Duration& hold) const {
  cluster::StartTraining start = options_.start;
  start.you = id;
  if (Status status = link.send(start); !status) return status;
  for (size_t at = 0; at < options_.model.size(); at += kModelPart) {
    const std::span<const std::byte> part =
        options_.model.subspan(at, std::min(kModelPart, options_.model.size() - at));
    if (Status status = link.send_values(0, 0, {.what = cluster::TrainValues::kModel}, {&part, 1}); !status)
      return status;
  }
  const auto answer = link.receive(kAgreeMax);
  if (!answer) return answer.status();
  hold = kAskAgain;
  auto message = cluster::decode_to_train_lead(answer->body);
  auto* yes = message && !answer->is_values ? std::get_if<cluster::TrainingAgreed>(&*message) : nullptr;
  if (yes == nullptr) {
    const auto* failed = message ? std::get_if<cluster::TrainingFailed>(&*message) : nullptr;
    return {Errc::kInvalidArgument, failed != nullptr ? failed->why : "its answer is none"};
  }
  if (yes->agreement != options_.agreement) {
    (void)link.send(cluster::EndTraining{"names, shapes or types of parameters differ from the leader's"});
    return {Errc::kInvalidArgument, "names, shapes or types of its parameters differ from the leader's"};
  }
  agreed = std::move(*yes);
  return {};
}

bool LeaderLinks::admit(const cluster::TrainPlan::Member& row, std::shared_ptr<TrainLink> link) {
  const std::lock_guard lock(mutex_);
  calling_.erase(row.id);
  if (ending_) return false;
  Remote& remote = remotes_[row.id];
  remote.row = row;
  remote.link = link;
  remote.reader = std::thread([this, id = row.id, link = std::move(link)] { read(id, link); });
  return true;
}

std::optional<std::string> LeaderLinks::remove(cluster::TrainMemberId id, Duration hold) {
  const std::lock_guard lock(mutex_);
  const auto found = remotes_.find(id);
  if (found == remotes_.end()) return std::nullopt;
  found->second.link->close();
  std::string name = found->second.row.node.name;
  by_key_.erase(found->second.row.node.key);
  not_before_[found->second.row.node.key] = system_now() + hold;
  ended_.push_back(std::move(found->second.reader));
  remotes_.erase(found);
  return name;
}

void LeaderLinks::read(cluster::TrainMemberId id, const std::shared_ptr<TrainLink>& link) {
  const LinkReaders::Take take = [&](const TrainLink::Incoming& incoming,
                                     bool patient) -> Result<LinkReaders::Taken> {
    if (incoming.is_values) return events_.values(*link, id, incoming, patient);
    auto message = cluster::decode_to_train_lead(incoming.body);
    if (!message) return message.status();
    events_.message(id, std::move(*message));
    return LinkReaders::Taken{};
  };
  const Status status = options_.readers->read(*link, take);
  link->close();
  events_.ended(id, status.text());
}

std::shared_ptr<TrainLink> LeaderLinks::of(cluster::TrainMemberId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = remotes_.find(id);
  return found == remotes_.end() ? nullptr : found->second.link;
}

uint64_t LeaderLinks::bytes_sent() const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [id, remote] : remotes_) bytes += remote.link->counters().bytes_sent;
  return bytes;
}

uint64_t LeaderLinks::bytes_received() const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [id, remote] : remotes_) bytes += remote.link->counters().bytes_received;
  return bytes;
}

}  // namespace butterfly::runtime
