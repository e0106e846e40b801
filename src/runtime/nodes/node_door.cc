#include "runtime/nodes/node_door.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "cluster/enrol/keep_renewed.h"
#include "cluster/node/measure_link.h"
#include "cluster/transport/frame.h"
#include "cluster/transport/message.h"
#include "cluster/weights/weight_server.h"
#include "runtime/nodes/lead_desk.h"
#include "runtime/nodes/parked_caches.h"
#include "runtime/nodes/reported.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kDoorLook = std::chrono::milliseconds(200);  // between looks at stopping_
constexpr Duration kGreetingMax = std::chrono::seconds(5);
constexpr Duration kRenewalEvery = std::chrono::hours(1);

void answer_status(cluster::Link& link, const std::string& text) {
  const auto sent = cluster::send_message(link, {.kind = cluster::MessageKind::kControl},
                                          std::as_bytes(std::span(text)), kGreetingMax);
  // Who asked closes: what was sent is on its way until then.
  if (sent) (void)link.receive_head(kGreetingMax);
}

}  // namespace

Result<std::unique_ptr<cluster::Link>> open_link(cluster::Transport& transport, const std::string& address,
                                                 const std::string& expected_key, const cluster::Hello& hello,
                                                 Duration timeout) {
  const Deadline deadline(SystemClock::instance(), timeout);
  auto link = transport.connect(address, expected_key, timeout);
  if (!link) return link;
  cluster::Hello mine = hello;
  transport.introduce(mine, true);
  const auto theirs = cluster::exchange_hello(**link, mine, deadline.remaining());
  if (!theirs) return theirs.status();
  return transport.settle(std::move(*link), mine, *theirs, true);
}

Status probe_link(cluster::Transport& transport, const std::string& address, const std::string& expected_key,
                  cluster::Hello hello) {
  constexpr Duration kProbeMax = std::chrono::seconds(8);
  hello.purpose = cluster::LinkPurpose::kProbe;
  const auto link = open_link(transport, address, expected_key, hello, kProbeMax);
  if (!link) return link.status();
  (*link)->close();
  return {};
}

Result<std::string> ask_coordinator(cluster::Transport& transport, const std::string& address,
                                    const std::string& expected_key, cluster::Hello hello, Duration timeout) {
  const Deadline deadline(SystemClock::instance(), timeout);
  hello.purpose = cluster::LinkPurpose::kStatus;
  const auto link = open_link(transport, address, expected_key, hello, timeout);
  if (!link) return link.status();
  const auto answer = cluster::receive_message(
      **link, cluster::message_bytes_max(cluster::MessageKind::kControl), deadline.remaining());
  if (!answer) return answer.status();
  return std::string(reinterpret_cast<const char*>(answer->body.data()), answer->body.size());
}

ConnectPeer train_connector(std::shared_ptr<cluster::Transport> transport, cluster::Hello hello) {
  hello.purpose = cluster::LinkPurpose::kTrain;
  return [transport, hello](const std::string& address, const std::string& key) {
    return open_link(*transport, address, key, hello, kGreetingMax);
  };
}

std::function<Result<cluster::LinkFigures>(const cluster::NodeId& peer, const std::string& address)>
link_measurer(std::shared_ptr<cluster::Transport> transport, cluster::Hello hello) {
  hello.purpose = cluster::LinkPurpose::kProbe;
  return [transport, hello](const cluster::NodeId& peer,
                            const std::string& address) -> Result<cluster::LinkFigures> {
    auto link = open_link(*transport, address, peer.key, hello, kGreetingMax);
    if (!link) return link.status();
    return cluster::measure_link(**link, SystemClock::instance());
  };
}

std::unique_ptr<EventLoop> keep_certificate(const cluster::StateFolder& folder,
                                            std::shared_ptr<cluster::NodeTls> tls,
                                            const std::string& address) {
  return std::make_unique<EventLoop>(
      [folder, tls, address] {
        const auto renewed = reported([&] {
          return cluster::keep_renewed(folder, *tls, address, cluster::wall_now(), kGreetingMax).or_throw();
        });
        if (!renewed) log_warn("the certificate could not be renewed: {}", renewed.status().text());
      },
      kRenewalEvery);
}

NodeDoor::NodeDoor(Options options) : options_(std::move(options)) {}

NodeDoor::~NodeDoor() { stop(); }

void NodeDoor::start() {
  acceptor_ = std::thread([this] { accept(); });
}

void NodeDoor::stop() {
  if (stopping_.exchange(true)) return;
  options_.listener->close();
  if (acceptor_.joinable()) acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    for (Visitor& visitor : visitors_)
      if (visitor.link != nullptr) visitor.link->close();
  }
  reap(true);
}

void NodeDoor::accept() {
  while (!stopping_) {
    auto link = options_.listener->accept(kDoorLook);
    reap(false);
    if (!link) {
      if (link.status().code() == Errc::kTimeout) continue;
      if (!stopping_) log_warn("the cluster's port: {}", link.status().text());
      if (link.status().code() == Errc::kCancelled) return;
      SystemClock::instance().sleep_for(kDoorLook);  // out of descriptors, say
      continue;
    }
    const std::lock_guard lock(mutex_);
    const cluster::NodeId peer = (*link)->peer();
    if (const std::string why = why_not(peer); !why.empty()) {
      if (crowding_.size() < kLinksMax && crowding_.insert(peer.key).second)
        log_warn("{}: a link was closed: {}", peer.name, why);
      continue;
    }
    crowding_.erase(peer.key);
    Visitor& visitor = visitors_.emplace_back();
    visitor.peer = peer.key;
    auto box = std::make_shared<std::unique_ptr<cluster::Link>>(std::move(*link));
    visitor.thread = std::thread([this, &visitor, box] {
      greet(visitor, std::move(*box));
      visitor.done = true;
    });
  }
}

std::string NodeDoor::why_not(const cluster::NodeId& peer) const {
  const auto own = std::ranges::count(visitors_, peer.key, &Visitor::peer);
  if (static_cast<size_t>(own) >= kLinksPerPeer)
    return fmt::format("{} of this node's are served here, at most {} may be", own, kLinksPerPeer);
  const size_t open = options_.open_links == nullptr ? 0 : options_.open_links->count_peer(peer.key);
  if (open > kOpenPerPeer)
    return fmt::format("{} with this node are open, at most {} may be", open, kOpenPerPeer);
  if (visitors_.size() >= kLinksMax) return fmt::format("{} are served here", visitors_.size());
  return {};
}

void NodeDoor::greet(Visitor& visitor, std::unique_ptr<cluster::Link> link) {
  cluster::Hello mine = options_.hello;
  if (options_.transport != nullptr) options_.transport->introduce(mine, false);
  const auto hello = cluster::exchange_hello(*link, mine, kGreetingMax);
  if (!hello) {
    log_info("{}: {}", link->peer().name, hello.status().text());
    if (hello.status().code() == Errc::kUnsupported && options_.on_refused)
      options_.on_refused(link->peer(), hello.status().text());
    return;
  }
  if (options_.transport != nullptr) link = options_.transport->settle(std::move(link), mine, *hello, false);
  using cluster::LinkPurpose;
  switch (hello->purpose) {
    case LinkPurpose::kControl:
      if (options_.lead != nullptr) options_.lead->note_address(link->peer().key, hello->address);
      if (options_.on_control) options_.on_control(std::move(link), *hello);
      return;
    case LinkPurpose::kStage:
      if (options_.stage_links != nullptr)
        options_.stage_links->put(hello->job, hello->epoch, std::move(link));
      return;
    case LinkPurpose::kTrain:
      if (options_.on_train) options_.on_train(std::move(link));
      return;
    case LinkPurpose::kLead:
      if (options_.lead == nullptr) return;
      options_.lead->note_address(link->peer().key, hello->address);
      [[fallthrough]];
    case LinkPurpose::kCache:
      if (hello->purpose == LinkPurpose::kCache && options_.parked == nullptr) return;
      [[fallthrough]];
    case LinkPurpose::kWeights:
    case LinkPurpose::kProbe: {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      visitor.link = std::move(link);
      break;
    }
    case LinkPurpose::kStatus:
      if (options_.status) answer_status(*link, options_.status());
      return;
    default:
      log_info("{}: opened a link for something this node does not do", link->peer().name);
      return;
  }
  serve(visitor, *hello);
}

void NodeDoor::serve(Visitor& visitor, const cluster::Hello& hello) {
  const cluster::LinkPurpose purpose = hello.purpose;
  if (purpose == cluster::LinkPurpose::kCache) return options_.parked->serve(*visitor.link, hello);
  if (purpose == cluster::LinkPurpose::kLead) return options_.lead->serve(*visitor.link);
  const Status status = purpose == cluster::LinkPurpose::kProbe || options_.library == nullptr
                            ? cluster::answer_measurement(*visitor.link)
                            : cluster::serve_weights(*visitor.link, *options_.library);
  if (status.code() == Errc::kCorrupt) log_warn("{}: {}", visitor.link->peer().name, status.text());
}

void NodeDoor::reap(bool all) {
  std::list<Visitor> gone;
  {
    const std::lock_guard lock(mutex_);
    for (auto it = visitors_.begin(); it != visitors_.end();) {
      const auto next = std::next(it);
      if (all || it->done) gone.splice(gone.end(), visitors_, it);
      it = next;
    }
  }
  for (Visitor& visitor : gone) visitor.thread.join();
}

}  // namespace butterfly::runtime
