#include "runtime/nodes/cluster_host.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/background_pool.h"
#include "base/error.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/sha256.h"
#include "base/units.h"
#include "cluster/identity/enrolment.h"
#include "cluster/member/incarnation.h"
#include "cluster/node/discovery.h"
#include "cluster/transport/inproc.h"
#include "cluster/transport/socket.h"
#include "kernels/simd/target.h"
#include "model/adapter/adapter.h"
#include "model/arch/network.h"
#include "runtime/engine/local_chain.h"
#include "runtime/planning/model_shape.h"
#include "runtime/planning/written_placement.h"
#include "train/trainer/gradient_wire.h"

namespace butterfly::runtime {
namespace {

constexpr size_t kTaskNameMax = 100;    // messages carry it, for people
constexpr size_t kNodesWithLinks = 32;  // of more, members that ask get no pairs: a message has an end
constexpr Duration kLeadersLook = std::chrono::milliseconds(500);
constexpr Duration kLastWord = std::chrono::milliseconds(300);

uint64_t random_number() { return std::stoull(random_hex(15), nullptr, 16); }

// What the engine may know of the chain before there is one.
ChainInfo info_for(const model::ModelFile& file, const StageSettings& settings) {
  const auto described = std::make_unique<LoadedModel>(file);
  described->config = model::read_config(file, settings.context);
  return chain_info(*described, settings.chain_options().cache);
}

// Throws Error, in words, for an adapter that does not fit the model: here, and not on some node later. Piece
// by piece, as memory is forecast.
void check_adapter(const model::AdapterSpec& spec, const model::ModelFile& file) {
  const model::ModelFile shapes = without_values(file);
  const std::vector<model::Adapter> adapters = {model::open_adapter(spec, shapes)};
  const model::ModelConfig config = model::read_config(shapes);
  ThreadPool pool(1);
  model::WeightLoader weights(shapes, pool, {}, adapters);
  weights.leave_values();
  for (size_t piece = 0; piece < config.layers + 2; ++piece)
    model::architecture_of(shapes).load(config, weights,
                                        model::range_of_pieces(piece, piece + 1, config.layers));
  weights.check_adapters_used({});
}

// Null, and a word in the log, where the port is taken: nodes then need the address.
std::unique_ptr<EventLoop> answer_discovery(const cluster::Credentials& credentials,
                                            const std::string& address) {
  constexpr Duration kWait = std::chrono::milliseconds(200);
  try {
    const auto port = static_cast<uint16_t>(std::stoul(cluster::split_address(address).or_throw().port));
    const auto answerer = std::make_shared<cluster::DiscoveryAnswerer>(
        cluster::DiscoveryAnswer{credentials.authority.node().name, credentials.id().name, port});
    return std::make_unique<EventLoop>([answerer] { answerer->answer_one(kWait); }, Duration(0));
  } catch (const Error& error) {
    log_info("this cluster cannot be found on the local network: {}", error.what());
    return nullptr;
  }
}

LeadShell::Wanted wanted_leaders(const cluster::Roster& roster, const cluster::NodeId& self,
                                 const std::vector<std::string>& standbys,
                                 const std::vector<std::string>& witnesses) {
  LeadShell::Wanted wanted{.seats = {self}, .voters = {self}};
  const auto add = [&](const std::vector<std::string>& names, bool seat) {
    for (const std::string& name : names)
      for (const cluster::RosterRow& row : roster.rows())
        if (!row.removed && row.node.name == name) {
          if (seat) wanted.seats.push_back(row.node);
          wanted.voters.push_back(row.node);
        }
  };
  add(standbys, true);
  add(witnesses, false);
  // Nobody is left out for not having joined yet, and two cannot outvote one.
  if (wanted.voters.size() != 1 + standbys.size() + witnesses.size()) return {};
  if (wanted.voters.size() < cluster::kMajorityMin) wanted.voters = {self};
  return wanted;
}

}  // namespace

ClusterHost::ClusterHost(ClusterHostOptions options)
    : options_(std::move(options)), memory_(std::make_shared<NodeMemory>(options_.memory_bytes)) {
  const cluster::StateFolder folder = cluster::StateFolder::open(options_.state);
  const cluster::Credentials credentials = cluster::load_credentials(folder);
  hello_.version = options_.version;
  open_transport(folder, credentials);
  open_door();
  make_coordinator(folder);
  for (const HostedModelOptions& model : options_.models) add_model(model);
  make_node();
  renewal_ = keep_certificate(folder, tls_, door_->address());
  if (options_.lead != nullptr)
    leading_ = std::make_unique<EventLoop>([this] { tell_leaders(); }, kLeadersLook);
  if (options_.discoverable) answering_ = answer_discovery(credentials, door_->address());
}

void ClusterHost::open_transport(const cluster::StateFolder& folder,
                                 const cluster::Credentials& credentials) {
  self_ = credentials.id();
  authority_hash_ = credentials.authority.sha256();
  roster_ = std::make_shared<cluster::Roster>(folder);
  tls_ = std::make_shared<cluster::NodeTls>(credentials, roster_);
  cluster::TransportSetting setting;
  setting.self = self_;
  setting.tls = tls_;
  // A standby that leads lets nobody in: the authority's key stays where the cluster was made.
  if (cluster::Authority::is_here(folder))
    setting.enrol = [desk = std::make_shared<cluster::EnrolmentDesk>(folder, roster_)](
                        std::span<const std::byte> body, const std::string& host) {
      return desk->answer(body, host);
    };
  setting.mpi = options_.mpi;
  transport_ =
      cluster::make_transport(options_.mpi == nullptr ? "tcp" : "mpi", std::move(setting)).or_throw();
  if (const std::string caution = transport_->caution(); !caution.empty()) log_warn("{}", caution);
}

std::string ClusterHost::share_files(const std::string& name, const std::vector<cluster::FileToHash>& files) {
  cluster::HashCounts counts;
  ThreadPool threads = background_pool(options_.compute->size());  // another model may be served meanwhile
  const cluster::Manifest manifest =
      cluster::hash_files(files, options_.places.cache / "hashes", threads, &counts);
  if (counts.hashed_bytes > 0) log_info("{}: hashed {}", name, format_bytes(counts.hashed_bytes));
  std::vector<std::filesystem::path> paths;
  for (const cluster::FileToHash& shared : files) paths.push_back(shared.path);
  library_->add(std::make_shared<cluster::WholeFiles>(manifest, paths));
  return cluster::digest_to_hex(manifest.id());
}

cluster::ModelTask ClusterHost::share_weights(HostedModelOptions& model, const model::ModelFile& file) {
  StageSettings& settings = model.placement.settings;
  if (model.adapters.size() > StageSettings::kAdaptersMax)
    fail(Errc::kInvalidArgument, "{}: {} adapters, a cluster adds at most {}", model.name,
         model.adapters.size(), StageSettings::kAdaptersMax);
  for (const model::AdapterSpec& adapter : model.adapters) {
    check_adapter(adapter, file);
    settings.adapters.push_back({share_files(model.name, adapter_files(adapter.path)), adapter.scale});
    model.placement.adapter_bytes += adapter_bytes(adapter.path);
  }
  return {.id = share_files(model.name, files_to_share(file)),
          .name = model.name.substr(0, kTaskNameMax),
          .settings = settings.text()};
}

std::shared_ptr<CoordinatorBackend> ClusterHost::backend_of(cluster::JobId job) {
  const std::lock_guard lock(models_mutex_);
  std::shared_ptr<CoordinatorBackend>& backend = backends_[job];
  if (backend == nullptr) {
    RangeLoaderOptions loader{.job = job,
                              .transport = transport_,
                              .self = self_,
                              .hello = hello_,
                              .places = options_.places,
                              .library = library_,
                              .compute = options_.compute,
                              .memory = memory_,
                              .parked = parked_};
    backend = std::make_shared<CoordinatorBackend>(std::move(loader), stage_links_);
    backend->on_cut([this](cluster::Epoch epoch, const cluster::NodeId& peer, const std::string& why) {
      coordinator_->steps_failed(epoch, peer, why);
    });
  }
  return backend;
}

void ClusterHost::add_model(const HostedModelOptions& model) {
  const std::lock_guard one_at_a_time(adding_mutex_);
  if (has_model(model.name)) fail(Errc::kInvalidArgument, "{} is served by the cluster already", model.name);
  const auto hosted =
      std::make_shared<Hosted>(Hosted{.options = model, .file = model::open_model(model.path)});
  if (model.placement.written) {
    const size_t layers = model::read_config(hosted->file, model.placement.settings.context).layers;
    check_written_plan(*model.placement.written, layers + 2, self_.name);
  }
  hosted->task = share_weights(hosted->options, hosted->file);
  {
    const std::lock_guard lock(models_mutex_);
    for (const auto& [job, other] : models_)
      if (other->task.id == hosted->task.id &&
          other->options.placement.settings.adapters == hosted->options.placement.settings.adapters)
        fail(Errc::kInvalidArgument, "{} and {} are the same model: a cluster serves it once, under one name",
             other->options.name, model.name);
    hosted->job = cluster::kFirstJob;
    while (models_.contains(hosted->job)) ++hosted->job;
    if (cluster::is_training(hosted->job))
      fail(Errc::kInvalidArgument, "{}: a cluster serves at most {} models", model.name, models_.size());
  }
  hosted->steps =
      std::make_unique<EngineSlot>(info_for(hosted->file, model.placement.settings),
                                   [backend = backend_of(hosted->job)](
                                       cluster::Epoch epoch, const cluster::Placement& placement,
                                       const std::vector<std::string>& addresses, cluster::NodeId& to_blame) {
                                     return backend->chain(epoch, placement, addresses, to_blame);
                                   });
  {
    const std::lock_guard lock(models_mutex_);
    models_[hosted->job] = hosted;
  }
  CoordinatorShell::JobOptions job;
  job.model = hosted->task;
  job.steps = hosted->steps.get();
  job.plan = [hosted = hosted.get()](const cluster::PlanQuestion& question) {
    return plan_placement(hosted->file, question, hosted->options.placement);
  };
  if (model.rebalance)
    job.balance = [hosted = hosted.get()](const cluster::PlanQuestion& question,
                                          const std::map<std::string, double>& slowness, double now_s) {
      BalanceAnswer answer = balance_placement(hosted->file, question, slowness, now_s,
                                               hosted->options.placement, hosted->balance);
      log_debug("{}: {}", hosted->options.name, answer.reason);
      return CoordinatorShell::JobOptions::Balance{answer.move, std::move(answer.slowness),
                                                   std::move(answer.reason)};
    };
  coordinator_->add_job(hosted->job, std::move(job));
  log_info("{}: nodes join at {}", model.name, door_->address());
}

Status ClusterHost::end_model(const std::string& name) {
  const std::lock_guard one_at_a_time(adding_mutex_);
  const auto hosted = find(name);
  if (hosted == nullptr) return {Errc::kNotFound, fmt::format("{} is not served by the cluster", name)};
  coordinator_->end_job(hosted->job);
  const std::lock_guard lock(models_mutex_);
  models_.erase(hosted->job);
  return {};
}

void ClusterHost::add_training(const train::TrainConfig& config, TrainingHooks hooks) {
  if (train::wire_mode_by_name(config.wire_mode) != train::WireMode::kExact && config.wire_slots == 0)
    fail(Errc::kInvalidArgument,
         "wire_mode {}: the result depends on wire_slots, and nodes come and go; give wire_slots",
         config.wire_mode);
  const uint64_t bytes = training_memory(config);
  const std::string base_id = config.adapter.empty() ? "" : share_model(config.base_model);
  const std::string name = fmt::format("training into {}", config.output_dir).substr(0, kTaskNameMax);
  std::shared_ptr<TrainingJob> job;
  {
    const std::lock_guard lock(training_mutex_);
    if (training_runs_)
      fail(Errc::kInvalidArgument, "{}: another run is under way, a cluster trains one at a time", name);
    training_ = std::make_shared<TrainingJob>(TrainingJob::Options{
        .config = config,
        .self = self_,
        .nodes_up = [this] { return train_nodes(); },
        .connect = connect_for_training(),
        .first_epoch = first_epoch(),
        .base_id = base_id,
        .occupied = [place = training_place_](bool is) { place->occupied(is); },
        .on_step = hooks.on_step,
        .on_end =
            [this, name, told = hooks.on_end](const Status& status, const std::string& model) {
              if (status) log_info("{}: finished, {}", name, model);
              if (!status) log_error("{}: {}", name, status.text());
              coordinator_->end_job(cluster::kFirstTraining);
              {
                const std::lock_guard done(training_mutex_);
                training_runs_ = false;
              }
              if (told) told(status, model);
            }});
    training_runs_ = true;
    job = training_;
  }
  CoordinatorShell::JobOptions options;
  options.model = {
      .id = sha256_hex(train::config_text(config)), .name = name, .settings = training_settings(bytes)};
  options.steps = job.get();
  options.plan = [bytes, nodes_max = hooks.nodes_max](const cluster::PlanQuestion& question) {
    return training_placement(question, bytes, nodes_max);
  };
  coordinator_->add_job(cluster::kFirstTraining, std::move(options));
  log_info("{}: {} on each node", name, format_bytes(bytes));
}

std::string ClusterHost::share_model(const std::filesystem::path& path) {
  return share_files(path.filename().string(), files_to_share(model::open_model(path)));
}

void ClusterHost::end_training() {
  const std::lock_guard lock(training_mutex_);
  if (training_ != nullptr) training_->cancel();
}

std::string ClusterHost::models_id() const {
  const std::lock_guard lock(models_mutex_);
  std::string text;
  for (const auto& [job, model] : models_)
    text += fmt::format("{} {} {}\n", model->options.name, model->task.id, model->task.settings);
  return sha256_hex(text);
}

bool ClusterHost::has_model(const std::string& name) const { return find(name) != nullptr; }

std::shared_ptr<ClusterHost::Hosted> ClusterHost::find(const std::string& name) const {
  const std::lock_guard lock(models_mutex_);
  const auto found =
      std::ranges::find_if(models_, [&](const auto& row) { return row.second->options.name == name; });
  return found == models_.end() ? nullptr : found->second;
}

std::shared_ptr<Engine> ClusterHost::make_engine(const std::string& name, const model::Tokenizer* tokenizer,
                                                 const EngineOptions& options) {
  const auto hosted = find(name);
  if (hosted == nullptr) fail(Errc::kNotFound, "{} is not served by the cluster", name);
  return hosted->steps->make_engine(tokenizer, options);
}

void ClusterHost::open_door() {
  NodeDoor::Options door;
  door.listener = transport_->listen(options_.listen).or_throw();
  door.transport = transport_;
  door.hello = hello_;
  door.open_links = tls_->open_links();
  if (options_.lead != nullptr) door.lead = options_.lead->desk().get();
  door.parked = parked_.get();
  door.stage_links = &stage_links_;
  door.library = library_.get();
  door.on_control = [this](std::unique_ptr<cluster::Link> link, const cluster::Hello&) {
    coordinator_->accept(std::move(link));
  };
  door.status = [this] {
    cluster::ClusterStatus status = coordinator_->status();
    status.caution = transport_->caution();
    status.lead = lead_status();
    if (status.nodes.size() > kNodesWithLinks) status.links.clear();
    return cluster::to_json(status);
  };
  door.on_refused = [this](const cluster::NodeId& peer, const std::string& why) {
    coordinator_->node_refused(peer, why);
  };
  door_ = std::make_unique<NodeDoor>(std::move(door));
}

void ClusterHost::make_coordinator(const cluster::StateFolder& folder) {
  CoordinatorShell::Options shell;
  shell.config.incarnation =
      options_.lead != nullptr
          ? cluster::next_incarnation(folder, static_cast<int64_t>(options_.lead->view().term))
          : cluster::next_incarnation(folder, unix_ms());
  shell.config.self = self_;
  shell.config.address = door_->address();
  shell.config.numerics_id = kernels::kNumericsId;
  shell.config.health = options_.health;
  shell.config.nodes_wanted = options_.nodes_wanted;
  shell.config.nodes_wait = options_.nodes_wait;
  shell.config.measure_links = options_.measure_links;
  shell.config.known_links = cluster::read_known_links(folder);
  shell.keep_links = [folder](std::vector<cluster::KnownLink> links) {
    cluster::write_known_links(folder, std::move(links));
  };
  // Strategies that were asked for by name are followed when nodes come, be it faster or not.
  for (const HostedModelOptions& model : options_.models)
    if ((model.placement.strategy != nullptr && model.placement.strategy != &cluster::default_strategy()) ||
        model.placement.written)
      shell.config.gain_min = 0;
  shell.roster = roster_;
  shell.cut_off = [this](const std::string& key) { tls_->open_links()->close_peer(key); };
  shell.event = [this](const cluster::EventStatus& event) { tell(&event); };
  coordinator_ = std::make_unique<CoordinatorShell>(std::move(shell));
}

// The coordinator's own machine is a node like the others, with a link in memory.
void ClusterHost::make_node() {
  NodeShell::Options node;
  node.worker.instance = random_number();
  node.worker.coordinator = door_->address();
  node.worker.join.address = door_->address();
  node.worker.join.capabilities = options_.capabilities;
  node.memory = memory_;
  node.parked = parked_;
  training_place_ = std::make_shared<TrainingBackend>(
      TrainingBackend::Options{.memory = memory_, .begin = nullptr, .end = [this] {
                                 std::shared_ptr<TrainingJob> job;
                                 {
                                   const std::lock_guard lock(training_mutex_);
                                   job = training_;
                                 }
                                 if (job != nullptr) job->rest();
                               }});
  node.make_stage = [this](cluster::JobId job) -> std::shared_ptr<StageBackend> {
    if (cluster::is_training(job)) return training_place_;
    return backend_of(job);
  };
  node.connect = [this](const std::string&, Duration) -> Result<std::unique_ptr<cluster::Link>> {
    auto [here, there] = cluster::inproc_pair(self_, self_);
    coordinator_->accept(std::move(there));
    return std::move(here);
  };
  if (options_.measure_links) node.measure = link_measurer(transport_, hello_);
  node_ = std::make_unique<NodeShell>(std::move(node));
}

// Who may lead is what was asked for, as far as those nodes have joined; members hear where they are.
void ClusterHost::tell_leaders() {
  const std::string missing = fmt::format("{}", fmt::join(lead_status()->missing, ", "));
  if (missing != std::exchange(missing_said_, missing) && !missing.empty())
    log_warn(
        "{} never joined: nobody takes over before all of --standby and --witness have ('butterfly token "
        "new')",
        missing);
  const cluster::Mandate mandate = options_.lead->mandate();
  if (mandate.version == 0) return;
  cluster::Leaders leaders{.mandate = mandate_bytes(mandate)};
  for (const cluster::NodeId& seat : mandate.seats)
    leaders.seats.push_back({seat.key, seat == self_ ? address() : options_.lead->address_of(seat.key)});
  coordinator_->set_leaders(std::move(leaders));
}

ClusterHost::~ClusterHost() { stop(); }

void ClusterHost::start() {
  if (options_.lead != nullptr) {
    options_.lead->find_by([this](const std::string& key) {
      for (const cluster::NodeStatus& node : coordinator_->status(0, 0).nodes)
        if (node.key == key && key != self_.key) return node.address;
      return std::string();
    });
    options_.lead->want(
        [this] { return wanted_leaders(*roster_, self_, options_.standbys, options_.witnesses); });
    leading_->start();
  }
  coordinator_->start();
  door_->start();
  node_->start();
  renewal_->start();
  if (answering_ != nullptr) answering_->start();
}

Status ClusterHost::wait_until_serving(Duration timeout, const std::function<bool()>& cancelled) {
  std::string why;
  if (coordinator_->wait_until_serving(timeout, cancelled, why)) return {};
  if (cancelled && cancelled()) return {Errc::kCancelled, "interrupted"};
  const std::lock_guard lock(models_mutex_);
  return {Errc::kTimeout,
          fmt::format("the cluster does not serve {} yet: {}",
                      models_.empty() ? "a model" : models_.begin()->second->options.name, why)};
}

void ClusterHost::stop() {
  if (options_.lead != nullptr) {
    options_.lead->find_by(nullptr);
    options_.lead->want(nullptr);
    leading_->stop();
  }
  renewal_->stop();
  if (answering_ != nullptr) answering_->stop();
  node_->stop("the coordinator ends");
  coordinator_->stop();
  std::shared_ptr<TrainingJob> training;
  {
    const std::lock_guard lock(training_mutex_);
    training = std::move(training_);
  }
  training.reset();
  door_->stop();
}

std::vector<TrainNode> ClusterHost::train_nodes() const {
  std::vector<TrainNode> nodes;
  for (const cluster::NodeStatus& node : coordinator_->status(0, 0).nodes)
    if (node.key != self_.key && (node.state == "up" || node.state == "suspect"))
      nodes.push_back({{node.key, node.name}, node.address});
  return nodes;
}

ConnectPeer ClusterHost::connect_for_training() const {
  cluster::Hello hello;
  hello.version = options_.version;
  return train_connector(transport_, hello);
}

cluster::Epoch ClusterHost::first_epoch() const {
  return cluster::first_epoch(coordinator_->status(0, 0).incarnation) + 1;
}

std::optional<cluster::LeadStatus> ClusterHost::lead_status() const {
  if (options_.lead == nullptr) return std::nullopt;
  const LeadShell::View view = options_.lead->view();
  const cluster::Mandate mandate = options_.lead->mandate();
  cluster::LeadStatus lead{.term = view.term, .by_majority = mandate.by_majority()};
  const auto add = [&](const cluster::NodeId& node, const char* role, bool journal) {
    lead.seats.push_back({.name = node.name, .key = node.key, .role = role, .journal = journal});
  };
  if (mandate.may_lead(self_.key)) add(self_, "leads", true);
  for (const cluster::NodeId& node : mandate.seats)
    if (node != self_) add(node, "standby", std::ranges::count(view.in_sync, node.name) > 0);
  for (const cluster::NodeId& node : mandate.voters)
    if (node != self_ && !mandate.may_lead(node.key)) add(node, "witness", false);
  const std::vector<cluster::RosterRow> rows = roster_->rows();
  for (const auto* names : {&options_.standbys, &options_.witnesses})
    for (const std::string& name : *names)
      if (std::ranges::none_of(
              rows, [&](const cluster::RosterRow& row) { return !row.removed && row.node.name == name; }))
        lead.missing.push_back(name);
  return lead;
}

std::string ClusterHost::status_json(uint64_t events_after) const {
  cluster::ClusterStatus status = coordinator_->status(events_after);
  status.caution = transport_->caution();
  status.lead = lead_status();
  const std::lock_guard lock(models_mutex_);
  for (cluster::JobStatus& job : status.jobs) {
    const auto hosted = models_.find(job.id);
    if (hosted == models_.end()) continue;
    const EngineStats stats = hosted->second->steps->stats();
    job.rows_again = stats.again_rows;
    job.row_layers_again = stats.again_row_layers;
    job.moves_sent = stats.moves_sent;
    job.moves_computed = stats.moves_computed;
    job.moved_bytes = stats.moved_bytes;
  }
  return cluster::to_json(status);
}

bool ClusterHost::subscribe(EventCallback callback) {
  tell(nullptr);
  const std::lock_guard lock(callbacks_mutex_);
  if (callbacks_.size() >= kSubscribersMax) return false;
  callbacks_.push_back(std::move(callback));
  return true;
}

void ClusterHost::forget_subscribers() {
  const std::lock_guard lock(callbacks_mutex_);
  callbacks_.clear();
}

void ClusterHost::tell(const cluster::EventStatus* event) {
  const std::lock_guard lock(callbacks_mutex_);
  std::erase_if(callbacks_, [&](const EventCallback& callback) { return !callback(event); });
}

Result<std::string> ClusterHost::make_join_line() const {
  const cluster::StateFolder folder = cluster::StateFolder::open(options_.state);
  if (!cluster::Authority::is_here(folder))
    return {Errc::kNotFound,
            "tokens are made on the machine where the cluster was made: 'butterfly token new' there"};
  const auto token =
      cluster::TokenBook(folder).make(authority_hash_, 1, cluster::kTokenLife, cluster::wall_now());
  if (!token) return token.status();
  return fmt::format("butterfly join {} --token {}", address(), token->text());
}

Status ClusterHost::remove_node(const std::string& name_or_key) {
  // One that has not been seen since the start is on the list of members all the same.
  const Status status = coordinator_->remove_node(name_or_key);
  if (!status && status.code() != Errc::kNotFound) return status;
  const auto removed = roster_->remove(name_or_key);
  if (!removed) return removed.status();
  coordinator_->forbid(removed->key);
  // Its last message, that it is not wanted any more, is on the way: whoever does not take it is cut off all
  // the same.
  SystemClock::instance().sleep_for(kLastWord);
  tls_->open_links()->close_peer(removed->key);
  return {};
}

}  // namespace butterfly::runtime
