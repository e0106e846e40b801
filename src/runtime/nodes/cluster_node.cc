#include "runtime/nodes/cluster_node.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include "base/background_pool.h"
#include "base/error.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/units.h"
#include "cluster/identity/credentials.h"
#include "cluster/transport/resolver.h"
#include "cluster/transport/socket.h"
#include "runtime/nodes/model_weights.h"
#include "runtime/nodes/reported.h"
#include "runtime/nodes/training_backend.h"
#include "runtime/training/training_worker.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kLookUpMax = std::chrono::seconds(10);  // of the coordinator's name

std::string bracketed(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

bool means_any(const std::string& host) {
  return host.empty() || host == "0.0.0.0" || host == "::" || host == "*";
}

// Where those are that may lead, and the keys that they must have there. Thread-safe.
class KnownLeaders {
 public:
  KnownLeaders(std::shared_ptr<LeadDesk> desk, cluster::NodeId self, std::string named, std::string address)
      : desk_(std::move(desk)),
        self_(std::move(self)),
        named_(std::move(named)),
        first_(std::move(address)),
        now_(first_) {
    if (named_ != self_.key) desk_->note_address(named_, first_);
  }

  // The address that is connected to, or was last.
  std::string now() const {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  void connected(const std::string& address) {
    const std::lock_guard lock(mutex_);
    now_ = address;
  }
  // Who has to be there. Any member has a certificate; only those that the authority named give orders: in
  // this node's certificate, or in a mandate.
  std::string key_at(const std::string& address) const {
    for (const cluster::NodeId& seat : desk_->record().mandate.seats)
      if (seat != self_ && desk_->address_of(seat.key) == address) return seat.key;
    return named_;
  }
  std::vector<std::string> addresses() const {
    std::vector<std::string> addresses;
    const cluster::Mandate mandate = desk_->record().mandate;
    if (named_ != self_.key && (mandate.version == 0 || mandate.may_lead(named_)))
      addresses.push_back(first_);
    for (const cluster::NodeId& seat : mandate.seats)
      if (seat != self_ && seat.key != named_)
        if (const std::string address = desk_->address_of(seat.key); !address.empty())
          addresses.push_back(address);
    if (addresses.empty()) addresses.push_back(first_);
    return addresses;
  }
  std::vector<std::string> keep(const cluster::Leaders& leaders) {
    const auto mandate = mandate_of_bytes(leaders.mandate);
    if (!mandate || !desk_->adopt(*mandate)) {
      log_warn("the coordinator names others that may lead, without the authority's signature");
      return {};
    }
    for (const cluster::Leaders::Seat& seat : leaders.seats)
      if (mandate->may_lead(seat.key) && seat.key != named_)
        desk_->note_address(seat.key, reachable_address(seat.address, now()));
    return addresses();
  }

 private:
  const std::shared_ptr<LeadDesk> desk_;
  const cluster::NodeId self_;
  const std::string named_, first_;
  mutable std::mutex mutex_;
  std::string now_;
};

// Workers know the coordinator by the address they joined at; plans may hold the one it listens on.
class ReachableTransport final : public cluster::Transport {
 public:
  ReachableTransport(std::shared_ptr<cluster::Transport> inner, std::shared_ptr<KnownLeaders> leaders)
      : inner_(std::move(inner)), leaders_(std::move(leaders)) {}
  Result<std::unique_ptr<cluster::Listener>> listen(const std::string& address) override {
    return inner_->listen(address);
  }
  Result<std::unique_ptr<cluster::Link>> connect(const std::string& address, const std::string& expected_key,
                                                 Duration timeout) override {
    return inner_->connect(reachable_address(address, leaders_->now()), expected_key, timeout);
  }
  void introduce(cluster::Hello& mine, bool opens) override { inner_->introduce(mine, opens); }
  std::unique_ptr<cluster::Link> settle(std::unique_ptr<cluster::Link> link, const cluster::Hello& mine,
                                        const cluster::Hello& theirs, bool opened) override {
    return inner_->settle(std::move(link), mine, theirs, opened);
  }
  std::string caution() const override { return inner_->caution(); }

 private:
  std::shared_ptr<cluster::Transport> inner_;
  std::shared_ptr<KnownLeaders> leaders_;
};

// All files of a model, from the coordinator as far as they are not here: what open_model() takes.
std::filesystem::path fetch_files(const std::string& id, cluster::Transport& transport,
                                  const std::string& address, const std::string& key, cluster::Hello hello,
                                  const WeightPlaces& places, size_t threads,
                                  cluster::WeightLibrary& library) {
  constexpr Duration kOpenMax = std::chrono::seconds(10);
  const auto digest = cluster::digest_from_hex(id);
  if (!digest) fail(Errc::kCorrupt, "'{:.80}' is no model's id", id);
  hello.purpose = cluster::LinkPurpose::kWeights;
  const cluster::WeightPeer coordinator{"the coordinator",
                                        [&] { return open_link(transport, address, key, hello, kOpenMax); }};
  ThreadPool pool = background_pool(threads);
  const PreparedWeights prepared = prepare_files(*digest, {coordinator}, places, pool, {});
  library.add(prepared.source);
  if (prepared.fetched.bytes > 0)
    log_info("training: {} of the model fetched", format_bytes(prepared.fetched.bytes));
  return model_path(*prepared.source);
}

}  // namespace

std::string reachable_address(const std::string& address, const std::string& via) {
  const auto parts = cluster::split_address(address);
  const auto by = cluster::split_address(via);
  if (!parts || !by || !means_any(parts->host)) return address;
  return bracketed(by->host) + ":" + parts->port;
}

// A datagram socket is connected without anything being sent: the system chooses the way.
std::string local_address_towards(const std::string& address) {
  const cluster::HostPort target = cluster::split_address(address).or_throw();
  const cluster::AddressList list =
      cluster::Resolver::instance()
          .resolve(target.host, target.port, 0, SOCK_DGRAM, Deadline(SystemClock::instance(), kLookUpMax))
          .or_throw();
  for (const addrinfo* row = list.get(); row != nullptr; row = row->ai_next) {
    const cluster::Socket socket(::socket(row->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket.fd() < 0 || ::connect(socket.fd(), row->ai_addr, row->ai_addrlen) != 0) continue;
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    char host[NI_MAXHOST];
    if (::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        ::getnameinfo(reinterpret_cast<const sockaddr*>(&own), size, host, sizeof host, nullptr, 0,
                      NI_NUMERICHOST) == 0)
      return bracketed(host);
  }
  fail(Errc::kNotFound, "{}: this machine has no way there", address);
}

ClusterNode::ClusterNode(ClusterNodeOptions options) {
  const cluster::StateFolder folder = cluster::StateFolder::open(options.state);
  const cluster::Credentials credentials = cluster::load_credentials(folder);
  self_ = credentials.id();
  const auto roster = std::make_shared<cluster::Roster>(folder);
  const auto tls = std::make_shared<cluster::NodeTls>(credentials, roster);
  cluster::TransportSetting setting;
  setting.self = self_;
  setting.tls = tls;
  setting.mpi = options.mpi;
  const std::shared_ptr<cluster::Transport> ways =
      cluster::make_transport(options.mpi == nullptr ? "tcp" : "mpi", std::move(setting)).or_throw();
  desk_ = options.desk != nullptr ? options.desk
                                  : std::make_shared<LeadDesk>(LeadDesk::Options{
                                        .folder = folder, .authority = credentials.authority});
  const std::string named = credentials.own.coordinator();
  const auto leaders = std::make_shared<KnownLeaders>(desk_, self_, named, options.coordinator);
  const auto transport = std::make_shared<ReachableTransport>(ways, leaders);
  cluster::Hello hello;
  hello.version = options.version;

  NodeDoor::Options door;
  const std::string own = options.listen.empty() || options.advertise.empty()
                              ? local_address_towards(options.coordinator)
                              : std::string();
  door.listener = transport->listen(options.listen.empty() ? own + ":0" : options.listen).or_throw();
  address_ =
      !options.advertise.empty()
          ? options.advertise
          : reachable_address(door.listener->address(), own.empty() ? door.listener->address() : own + ":0");
  door.transport = transport;
  door.hello = hello;
  door.open_links = tls->open_links();
  door.lead = desk_.get();
  door.parked = parked_.get();
  door.stage_links = &stage_links_;
  door.library = library_.get();
  const auto memory = std::make_shared<NodeMemory>(options.memory_bytes);
  training_place_ = std::make_shared<TrainingBackend>(TrainingBackend::Options{
      .memory = memory, .begin = [this] { training_->go_last(); }, .end = [this] { training_->end_job(); }});
  const FetchModel fetch_model =
      [this, transport, leaders, hello, places = options.places,
       threads = options.compute == nullptr ? 1 : options.compute->size()](const std::string& id) {
        return fetch_files(id, *transport, leaders->now(), leaders->key_at(leaders->now()), hello, places,
                           threads, *library_);
      };
  training_ = std::make_unique<TrainingWorker>(
      TrainingWorker::Options{.coordinator = [tls] { return tls->credentials().own.coordinator(); },
                              .connect = train_connector(transport, hello),
                              .address = address_,
                              .threads = options.compute == nullptr ? 0 : options.compute->size(),
                              .memory_bytes = options.memory_bytes,
                              .occupied = [place = training_place_](bool is) { place->occupied(is); },
                              .fetch_model = fetch_model});
  door.on_train = [this](std::unique_ptr<cluster::Link> link) { training_->accept(std::move(link)); };
  door_ = std::make_unique<NodeDoor>(std::move(door));

  RangeLoaderOptions loader{.job = 0,
                            .transport = transport,
                            .self = self_,
                            .hello = hello,
                            .places = options.places,
                            .library = library_,
                            .compute = options.compute,
                            .fetch_bytes_per_s = options.fetch_bytes_per_s,
                            .memory = memory,
                            .parked = parked_};
  NodeShell::Options shell;
  shell.worker.instance = std::stoull(random_hex(15), nullptr, 16);
  shell.worker.coordinator = options.coordinator;
  shell.worker.join.address = address_;
  shell.worker.join.capabilities = options.capabilities;
  shell.memory = loader.memory;
  shell.parked = parked_;
  shell.make_stage = [this, loader](cluster::JobId job) -> std::shared_ptr<StageBackend> {
    if (cluster::is_training(job)) return training_place_;
    RangeLoaderOptions of_job = loader;
    of_job.job = job;
    return std::make_shared<WorkerBackend>(std::move(of_job), stage_links_);
  };
  if (named.empty())
    log_warn(
        "the certificate of this node does not say who coordinates: until it is renewed, any node at {} "
        "is obeyed",
        options.coordinator);
  shell.connect = [transport, leaders, hello, at = address_](const std::string& address, Duration timeout) {
    cluster::Hello control = hello;
    control.purpose = cluster::LinkPurpose::kControl;
    control.address = at;
    auto link = open_link(*transport, address, leaders->key_at(address), control, timeout);
    if (link) leaders->connected(address);
    return link;
  };
  shell.keep_leaders = [leaders](const cluster::Leaders& said) { return leaders->keep(said); };
  shell.measure = link_measurer(transport, hello);
  shell.cut_off = [roster, tls](const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      if (roster->is_removed(key)) continue;
      const auto added = reported([&] {
        return roster->add_removed({key, "removed-" + key.substr(0, 12)}).or_throw(), true;
      });
      if (!added) log_warn("a removed node is not on this node's list: {}", added.status().text());
      tls->open_links()->close_peer(key);
    }
  };
  shell.on_given_up = options.on_given_up;
  shell_ = std::make_unique<NodeShell>(std::move(shell));
  shell_->set_coordinators(leaders->addresses());
  // Who asks for a promise has said where it is: the coordinator before it may have ended before it could
  // tell.
  desk_->on_promised([this, leaders](cluster::Term term) {
    shell_->set_coordinators(leaders->addresses());
    shell_->promised(term);
  });
  renewal_ = keep_certificate(folder, tls, options.coordinator);
}

ClusterNode::~ClusterNode() { stop("the node ends"); }

void ClusterNode::start() {
  door_->start();
  shell_->start();
  renewal_->start();
}

void ClusterNode::stop(const std::string& why) {
  desk_->on_promised(nullptr);
  renewal_->stop();
  shell_->stop(why);
  door_->stop();
  training_->stop();
}

}  // namespace butterfly::runtime
