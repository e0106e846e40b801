#include "server/server.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <thread>

#include "base/error.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/private_folder.h"
#include "base/units.h"
#include "cluster/transport/tcp.h"
#include "kernels/simd/target.h"
#include "runtime/nodes/cluster_start.h"
#include "runtime/nodes/lead_shell.h"
#include "server/api/api_error.h"
#include "server/cluster_options.h"
#include "server/context/server_context.h"
#include "server/dispatch.h"
#include "server/models/cache_choice.h"
#include "server/models/model_specs.h"
#include "server/starting_door.h"

namespace butterfly::server {
namespace {

// Threads that prepare requests: short ones, and what takes long.
constexpr size_t kLightPreparers = 3, kHeavyPreparers = 2;
// Of one file to learn from, and what a form has around it.
constexpr uint64_t kUploadBytesMax = uint64_t{512} << 20, kFormBytes = 4096;
// Nodes that come to this port instead of the cluster's look for it.
constexpr std::string_view kClusterPortName =
    cluster::kClusterPortField.substr(0, cluster::kClusterPortField.size() - 2);
constexpr std::chrono::milliseconds kFlushTime{3000};  // for the last bytes of answers after a drain
constexpr std::chrono::milliseconds kFlushStep{10};
constexpr std::chrono::milliseconds kAgainLook{500};  // between looks at whether the server ends
constexpr std::chrono::milliseconds kAgainWait{100};  // where there is no room for a stream of before

// A connection is a descriptor: as many as the system lets us have.
void raise_descriptor_limit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

size_t connection_bound(size_t wanted) {
  rlimit limit;
  constexpr size_t kOthers = 128;  // model files, logs, listeners
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return wanted;
  return std::min<size_t>(wanted, std::max<size_t>(limit.rlim_cur, kOthers + 16) - kOthers);
}

AccessOptions access_options(const Settings& settings) {
  AccessOptions access;
  for (const std::string& key : settings.api_keys) access.keys.add(key);
  if (!settings.api_key_file.empty()) access.keys.add_file(settings.api_key_file);
  if (!settings.operator_key_file.empty()) access.operators.add_file(settings.operator_key_file);
  access.hosts = settings.allow_hosts;
  access.origins = settings.allow_origins;
  if (access.keys.empty() && !is_loopback(settings.host))
    fail(Errc::kInvalidArgument,
         "{} can be reached by other machines, and there is no API key. Make one with 'butterfly serve "
         "--make-key keys', then add "
         "--api-key-file keys; or stay on 127.0.0.1",
         settings.host);
  return access;
}

// `cluster`: may be null.
HttpServerOptions http_options(const Settings& settings, const runtime::ClusterHost* cluster) {
  HttpServerOptions options;
  options.host = settings.host;
  options.port = static_cast<uint16_t>(settings.port);
  options.tls_certificate = settings.tls_cert;
  options.tls_key = settings.tls_key;
  options.unix_path = settings.management;
  options.limits.connection_count = connection_bound(settings.connections);
  if (!settings.fine_tuning.empty()) {
    const LargeBody upload{
        std::min(kUploadBytesMax, parse_bytes(settings.fine_tuning_bytes).or_throw() + kFormBytes),
        std::filesystem::absolute(settings.fine_tuning)};
    options.large_body = [upload](const HttpRequest& head) -> std::optional<LargeBody> {
      if (head.method != "POST" || head.path != "/v1/files") return std::nullopt;
      return upload;
    };
  }
  std::string cluster_port = cluster == nullptr ? "" : cluster->address();
  cluster_port.erase(0, cluster_port.rfind(':') + 1);
  options.refuse = [cluster_port](int status, const std::string& words) {
    HttpResponse response =
        error_response(ApiError(status, status >= 500 ? "overloaded_error" : "invalid_request_error", words));
    if (status == 400 && !cluster_port.empty()) response.fields.emplace_back(kClusterPortName, cluster_port);
    return response;
  };
  return options;
}

// The standbys of who leads have every question before anything of its answer is sent.
class LeadCopies final : public JournalCopies {
 public:
  explicit LeadCopies(std::shared_ptr<runtime::LeadShell> lead) : lead_(std::move(lead)) {}
  void journal_is(const std::string& all) override { lead_->journal_is(all); }
  Status journal_grew(const std::string& lines) override {
    return lead_->wait_safe(lead_->journal_grew(lines));
  }

 private:
  const std::shared_ptr<runtime::LeadShell> lead_;
};

// A model that was unloaded, or that came later, is a new job of the cluster.
ModelPtr load_on_cluster(ServerContext& context, const ModelSpec& spec, const ModelOptions& options) {
  const bool known = context.cluster->has_model(spec.name);
  if (!known) context.cluster->add_model(hosted_model(context.settings, spec, options));
  try {
    return std::make_shared<ServedModel>(spec,
                                         std::make_shared<ModelEngine>(spec, options, *context.cluster));
  } catch (...) {
    if (!known) (void)context.cluster->end_model(spec.name);
    throw;
  }
}

// A run as a job of the cluster: it has the nodes that what is served leaves room on.
TuningRun cluster_tuning(ServerContext& context) {
  return [&context](train::TrainConfig config, const TuningStep& on_step, const TuningWanted& wanted,
                    std::filesystem::path& adapter) -> Status {
    config.threads = context.settings.fine_tuning_threads;
    auto ended = std::make_shared<std::promise<std::pair<Status, std::string>>>();
    auto future = ended->get_future();
    context.cluster->add_training(config, {.nodes_max = context.settings.fine_tuning_nodes,
                                           .on_step = on_step,
                                           .on_end = [ended](const Status& status, const std::string& model) {
                                             ended->set_value({status, model});
                                           }});
    // It may wait for memory and never have a step.
    while (future.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready)
      if (!wanted()) context.cluster->end_training();
    auto [status, model] = future.get();
    adapter = model;
    return status;
  };
}

void open_fine_tuning(ServerContext& context) {
  const std::filesystem::path folder = std::filesystem::absolute(context.settings.fine_tuning);
  make_private_folder(folder);
  context.files = std::make_unique<FileStore>(
      FileStoreOptions{.folder = folder / "files",
                       .owner_bytes_max = parse_bytes(context.settings.fine_tuning_bytes).or_throw()});
  FineTunerOptions options;
  options.folder = folder / "jobs";
  options.owner_jobs_max = context.settings.fine_tuning_jobs;
  options.run = context.cluster != nullptr ? cluster_tuning(context)
                                           : local_tuning(context.settings.fine_tuning_threads,
                                                          [&context](const std::filesystem::path& file) {
                                                            return context.models->packed_weights(file);
                                                          });
  options.find_model = [&context](const std::string& name) -> std::optional<ModelSpec> {
    for (const ModelInfo& info : context.models->list())
      if (info.spec.name == name) return info.spec;
    return std::nullopt;
  };
  options.add_model = [&context](ModelSpec spec) { context.models->add(std::move(spec)); };
  options.remove_model = [&context](const std::string& name) { return context.models->remove(name); };
  context.fine_tuner = std::make_unique<FineTuner>(std::move(options), *context.files);
}

bool nobody_waits(const ModelPool& models) {
  const auto list = models.list();
  return std::ranges::none_of(list, [](const ModelInfo& info) {
    return info.model != nullptr && info.model->engine().stats().waiting > 0;
  });
}

}  // namespace

struct Server::Impl {
  std::shared_ptr<runtime::ClusterStart> cluster;  // outlives the host that is in the context
  ServerContext context;
  std::unique_ptr<WorkQueue> queue;
  std::thread drainer;
  std::thread again;  // answers what an earlier process left
  std::atomic<bool> stopping{false};
  std::atomic<bool> clean{true};

  // Takes nothing new, lets what runs end, then ends the network's thread.
  void begin_drain() {
    if (context.draining.exchange(true)) return;
    log_info("draining: running requests have {} s", context.settings.drain_seconds);
    context.http->stop_accepting();
    drainer = std::thread([this] {
      const TimePoint deadline =
          SystemClock::instance().now() + std::chrono::seconds(context.settings.drain_seconds);
      for (const ModelInfo& info : context.models->list())
        if (info.model != nullptr && !info.model->engine().drain(deadline)) clean = false;
      if (context.cluster != nullptr) context.cluster->forget_subscribers();  // streams without an end
      const TimePoint flushed = SystemClock::instance().now() + kFlushTime;
      while (context.http->unanswered() > 0 && SystemClock::instance().now() < flushed)
        std::this_thread::sleep_for(kFlushStep);
      context.http->stop();
    });
  }

  void on_signal() {
    if (!context.draining) return begin_drain();
    log_warn("ended at once");
    ::unlink(context.settings.management.c_str());
    ::_exit(1);
  }
};

Server::Server(ServerOptions options) : impl_(std::make_unique<Impl>()) {
  bound_heap();
  ServerContext& context = impl_->context;
  context.settings = std::move(options.settings);
  context.version = options.version;
  context.fingerprint = fmt::format("bf-{}-n{}", options.version, kernels::kNumericsId);
  context.access = AccessPolicy(access_options(context.settings));
  context.quotas = std::make_shared<Quotas>(QuotaOptions{.requests_per_minute = context.settings.key_requests,
                                                         .tokens_per_minute = context.settings.key_tokens,
                                                         .requests_at_once = context.settings.key_parallel});
  ModelOptions model_settings = model_options(context.settings);
  std::vector<ModelSpec> specs = model_specs(context.settings, options.resolve_model);
  if (options.cluster == nullptr) model_settings.cache_bytes_max = cache_budget(context.settings, specs);
  context.compute = std::make_unique<Compute>(context.settings.threads);
  ModelPool::Options pool;
  if (!context.settings.memory.empty()) pool.memory_bytes = parse_bytes(context.settings.memory).or_throw();
  if (context.settings.management.empty() && context.settings.port != 0) {
    context.settings.management = default_management_path(context.settings.port).string();
    check_management_folder(context.settings.management);
  }
  std::unique_ptr<StartingDoor> starting;
  if (options.cluster != nullptr) {
    if (!context.settings.management.empty())
      starting = std::make_unique<StartingDoor>(context.settings.management, specs.front().name);
    impl_->cluster = std::move(options.cluster);
    runtime::ClusterHostOptions host =
        cluster_options(context.settings, specs, model_settings, *context.compute);
    host.version = context.version;
    context.cluster = impl_->cluster->make(std::move(host));
    context.cluster->start();
  }
  if (!context.settings.train.empty()) {
    if (context.cluster == nullptr)
      fail(Errc::kInvalidArgument,
           "--train {}: needs --cluster or --local-nodes; 'butterfly train' trains without a server",
           context.settings.train);
    train::TrainConfig config;
    train::read_config_file(context.settings.train, config);
    context.cluster->add_training(config);
    context.settings.training.push_back(config.output_dir);  // the page shows it
  }
  // All models are the cluster's, or all are here.
  const bool on_cluster = context.cluster != nullptr;
  pool.load = [&context, model_settings, on_cluster](const ModelSpec& spec,
                                                     const ModelPool::EnginePtr& engine) {
    if (on_cluster) return load_on_cluster(context, spec, model_settings);
    return std::make_shared<ServedModel>(
        spec,
        engine != nullptr ? engine : std::make_shared<ModelEngine>(spec, model_settings, *context.compute));
  };
  pool.forecast = [model_settings, on_cluster](const ModelSpec& spec) {
    return on_cluster ? MemoryForecast{} : forecast_memory(spec, model_settings);
  };
  if (on_cluster)
    pool.unloaded = [&context](const ModelSpec& spec) { (void)context.cluster->end_model(spec.name); };
  context.add_model = [&context, resolve = options.resolve_model](const std::string& text) {
    ModelSpec spec = model_spec(context.settings, text, resolve);
    const std::string name = spec.name;
    if (context.cluster != nullptr && !context.settings.plan.empty())
      fail(Errc::kInvalidArgument, "--plan {}: has the pieces of one model, which is served",
           context.settings.plan);
    context.models->add(std::move(spec));
    return name;
  };
  if (!context.settings.train.empty() && !context.settings.fine_tuning.empty())
    fail(Errc::kInvalidArgument, "--train and --fine-tuning: a server trains one run at a time; choose one");
  std::vector<std::string> names;
  for (const ModelSpec& spec : specs) names.push_back(spec.name);
  context.models = std::make_unique<ModelPool>(std::move(specs), std::move(pool));

  if (!context.settings.fine_tuning.empty()) open_fine_tuning(context);

  if (!context.settings.journal.empty()) {
    StreamTableOptions table{.journal = std::filesystem::absolute(context.settings.journal),
                             .program = context.fingerprint};
    // Another machine may go on with them: only if it has the same models.
    if (context.cluster != nullptr) table.program += "-m" + context.cluster->models_id().substr(0, 16);
    if (options.lead != nullptr) {
      table.copies = std::make_shared<LeadCopies>(options.lead);
      table.may_speak = context.may_speak = [lead = options.lead] { return lead->may_speak(); };
    }
    context.streams = std::make_unique<StreamTable>(std::move(table));
  }
  raise_descriptor_limit();
  ::signal(SIGPIPE, SIG_IGN);
  impl_->queue = std::make_unique<WorkQueue>(kLightPreparers, kHeavyPreparers, HttpLimits().prepare_queue);
  starting.reset();
  context.http = std::make_unique<HttpServer>(
      http_options(context.settings, context.cluster.get()),
      [&context](const HttpRequest& request, Door door) { return check_head(context, request, door); },
      [this, &context](ExchangePtr exchange, Door door) {
        dispatch(context, *impl_->queue, std::move(exchange), door);
      });
  context.begin_drain = [this] { impl_->begin_drain(); };
  // The first has to be there; others may not fit beside it and come when they are asked for.
  if (!context.settings.lazy) {
    for (const std::string& name : names) {
      try {
        context.models->acquire(name);
      } catch (const ApiError& error) {
        if (name == names.front()) fail(Errc::kInvalidArgument, "{}", error.what());
      }
    }
  }
  if (context.fine_tuner != nullptr) context.fine_tuner->start();
  if (context.streams == nullptr) return;
  if (const size_t left = context.streams->take_left(); left > 0) {
    log_info("{} streams of before can be gone on with", left);
    impl_->again = std::thread([this, &context] {
      while (!impl_->stopping) {
        // Who waits goes before answers that nobody may come for: else these would have all places.
        const bool idle = nobody_waits(*context.models);
        auto stream = context.streams->next_left(idle ? kAgainLook : kAgainWait, idle);
        if (stream == nullptr || answer_again(context, stream)) continue;
        context.streams->put_back(std::move(stream));
        std::this_thread::sleep_for(kAgainWait);
      }
    });
  }
}

Server::~Server() {
  if (impl_->drainer.joinable()) impl_->drainer.join();
  ServerContext& context = impl_->context;
  impl_->stopping = true;
  if (impl_->again.joinable()) impl_->again.join();
  impl_->queue->stop();
  if (context.fine_tuner != nullptr) context.fine_tuner->stop();
  context.models->clear();  // engines end, and let go of their exchanges
  context.streams.reset();  // and so do streams that could be taken up
  if (context.cluster != nullptr) context.cluster->stop();
  context.http.reset();
}

std::string Server::url() const {
  const Settings& s = impl_->context.settings;
  const bool v6 = s.host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", s.tls_cert.empty() ? "http" : "https", v6 ? "[" : "", s.host,
                     v6 ? "]" : "", port());
}

uint16_t Server::port() const { return impl_->context.http->port(); }
bool Server::needs_key() const { return impl_->context.access.needs_key(); }
std::string Server::first_model() const { return impl_->context.models->list().front().spec.name; }
std::string Server::management_path() const { return impl_->context.settings.management; }

std::string Server::why_no_cluster() const {
  const auto& cluster = impl_->context.cluster;
  if (cluster == nullptr) return {};
  const Status status = cluster->wait_until_serving(Duration{0}, nullptr);
  return status.text();
}

bool Server::run(bool signals) {
  if (signals) impl_->context.http->on_signal([this](int) { impl_->on_signal(); });
  impl_->context.http->run();
  return impl_->clean;
}

void Server::stop() {
  impl_->context.http->post([this] { impl_->begin_drain(); });
}

}  // namespace butterfly::server
