#include "runtime/nodes/node_shell.h"

#include "base/log.h"
#include "cluster/transport/node_tls.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kNodeTick = std::chrono::milliseconds(50);
constexpr Duration kMachineWatch = std::chrono::seconds(1);  // of the machine: processes that come and go
constexpr Duration kNever = std::chrono::hours(1);           // loops that only work need no tick
constexpr Duration kConnectMax = std::chrono::seconds(10);

cluster::WorkerConfig with_time_of_day(cluster::WorkerConfig config) {
  config.join.unix_ms = unix_ms();
  return config;
}

}  // namespace

NodeShell::NodeShell(Options options)
    : options_(std::move(options)),
      machine_(with_time_of_day(options_.worker), system_now()),
      loop_([this] { tick(); }, kNodeTick),
      dial_([] {}, kNever),
      measuring_([] {}, kNever),
      watching_([this] { watch_machine(); }, kMachineWatch),
      links_(loop_, {.on_message = [this](auto link, const auto& message) { received(link, message); },
                     .on_closed =
                         [this](auto link, const std::string& why) {
                           machine_.link_closed(link, why, system_now());
                           act();
                         }}) {}

NodeShell::~NodeShell() { stop("the node ends"); }

void NodeShell::start() {
  dial_.start();
  measuring_.start();
  watching_.start();
  loop_.start();
}

// Sensors may take their time.
void NodeShell::watch_machine() {
  MachineLoad load = machine_load_.sample();
  load.held_up_s = late_.wait_s();
  loop_.post([this, load] { machine_.set_machine_load(load); });
}

void NodeShell::retire(const std::string& why) {
  loop_.post([this, why] {
    machine_.retire(why, system_now());
    act();
  });
}

void NodeShell::stop(const std::string& why) {
  if (stopped_.exchange(true)) return;
  loop_.ask([&] {
    machine_.leave(why, system_now());
    act();
    return true;
  });
  loop_.stop();
  for (const auto& [job, work] : works_) work->order->store(true);
  links_.clear();
  dial_.stop();
  measuring_.stop();
  watching_.stop();
  for (const auto& [job, work] : works_) {
    work->loop.stop();
    work->stage->stop(UINT64_MAX);
  }
}

NodeShell::JobWork::JobWork(std::shared_ptr<StageBackend> backend)
    : stage(std::move(backend)), loop([] {}, kNever) {
  loop.start();
}

std::shared_ptr<std::atomic<bool>> NodeShell::JobWork::new_order() {
  order->store(true);
  return order = std::make_shared<std::atomic<bool>>(false);
}

NodeShell::JobWork& NodeShell::work_of(cluster::JobId job) {
  std::unique_ptr<JobWork>& work = works_[job];
  if (work == nullptr) work = std::make_unique<JobWork>(options_.make_stage(job));
  return *work;
}

NodeShell::View NodeShell::view() const {
  const std::lock_guard lock(view_mutex_);
  return view_;
}

void NodeShell::tick() {
  for (const auto& [job, work] : works_) {
    work->stage->set_patience(machine_.silent_after());
    machine_.set_progress(job, work->stage->progress());
  }
  machine_.set_memory(options_.memory->usable_bytes());
  machine_.tick(system_now());
  act();
}

void NodeShell::act() {
  for (cluster::WorkerAction& action : machine_.take_actions())
    std::visit([this](auto& a) { perform(std::move(a)); }, action);
  View now{.state = machine_.state(),
           .phase = machine_.phase(),
           .problem = machine_.last_problem(),
           .notice = machine_.notice(),
           .retired = machine_.retired(),
           .why_not_moved = machine_.why_not_moved()};
  for (const cluster::JobId job : machine_.jobs())
    if (const cluster::Assignment* work = machine_.work(job); work != nullptr && now.end == 0) {
      now.begin = work->begin;
      now.end = work->end;
    }
  const std::lock_guard lock(view_mutex_);
  view_ = std::move(now);
}

void NodeShell::perform(cluster::ConnectToCoordinator action) {
  dial_.post([this, action = std::move(action)] {
    auto link = options_.connect(action.address, kConnectMax);
    // std::function wants copies: the link travels in a shared box.
    auto box = std::make_shared<Result<std::unique_ptr<cluster::Link>>>(std::move(link));
    loop_.post([this, attempt = action.attempt, box] {
      if (*box) {
        machine_.connected(attempt, links_.add(std::move(**box)), system_now());
      } else if (cluster::says_removed(box->status())) {
        machine_.connect_refused(attempt,
                                 "this node was removed from the cluster; to come back it needs a new token",
                                 system_now());
      } else {
        machine_.connect_failed(attempt, box->status().text(), system_now());
      }
      act();
    });
  });
}

void NodeShell::received(cluster::LinkNumber link, const cluster::Message& message) {
  if (const auto decoded = cluster::decode_to_worker(message.body)) {
    machine_.received(link, *decoded, system_now());
  } else {
    machine_.received_garbage(link, decoded.status().text(), system_now());
  }
  act();
}

void NodeShell::perform(cluster::SendToCoordinator action) {
  links_.send(action.link, cluster::head_of(action.message), cluster::encode(action.message));
}

void NodeShell::perform(cluster::CloseWorkerLink action) {
  log_debug("link to the coordinator closed: {}", action.why);
  links_.close(action.link);
}

void NodeShell::perform(cluster::PrepareWeights action) {
  JobWork& job = work_of(action.work.job);
  job.preparing = job.new_order();
  job.loop.post([this, stage = job.stage, work = std::move(action.work), order = job.preparing] {
    if (*order) return;
    const StageBackend::Preparation done = stage->prepare(work, *order);
    loop_.post([this, epoch = work.epoch, done] {
      machine_.prepared(epoch, done.status, done.unreachable, system_now());
      act();
    });
  });
}

void NodeShell::perform(cluster::StopPreparing action) { work_of(action.job).preparing->store(true); }

void NodeShell::perform(cluster::CutOff action) {
  // Onto a disk that may be slow: not on the thread that decides.
  if (options_.cut_off) dial_.post([this, keys = std::move(action.keys)] { options_.cut_off(keys); });
}

void NodeShell::perform(cluster::KeepLeaders action) {
  if (!options_.keep_leaders) return;
  dial_.post([this, leaders = std::move(action.leaders)] {
    std::vector<std::string> addresses = options_.keep_leaders(leaders);
    if (!addresses.empty()) set_coordinators(std::move(addresses));
  });
}

void NodeShell::set_coordinators(std::vector<std::string> addresses) {
  loop_.post([this, addresses = std::move(addresses)] { machine_.set_coordinators(addresses); });
}

void NodeShell::promised(cluster::Incarnation incarnation) {
  loop_.post([this, incarnation] {
    machine_.promised(incarnation, system_now());
    act();
  });
}

void NodeShell::perform(cluster::LoadStage action) {
  JobWork& job = work_of(action.work.job);
  job.loop.post([this, stage = job.stage, work = std::move(action.work), order = job.new_order()] {
    if (*order) return;
    const auto bytes = stage->load(work, *order);
    loop_.post([this, epoch = work.epoch, bytes] {
      machine_.loaded(epoch, bytes ? Status() : bytes.status(), bytes ? *bytes : 0, system_now());
      act();
    });
  });
}

void NodeShell::perform(cluster::RunStage action) {
  JobWork& job = work_of(action.work.job);
  job.loop.post([this, stage = job.stage, work = std::move(action.work), order = job.order] {
    if (*order) return;
    const cluster::Epoch epoch = work.epoch;
    const Status status =
        stage->start(work, [this, epoch](const cluster::NodeId& peer, const std::string& why) {
          loop_.post([this, epoch, peer, why] {
            machine_.stage_failed(epoch, peer, why, system_now());
            act();
          });
        });
    loop_.post([this, epoch, status] {
      machine_.started(epoch, status, system_now());
      act();
    });
  });
}

void NodeShell::perform(cluster::StopStage action) {
  JobWork& job = work_of(action.job);
  job.new_order();
  job.loop.post([stage = job.stage, epoch = action.epoch] { stage->stop(epoch); });
}

void NodeShell::perform(cluster::FreeWeights action) {
  const auto found = works_.find(action.job);
  if (found == works_.end()) return;  // it never had any
  JobWork& job = *found->second;
  options_.memory->will_release(action.job);
  job.new_order();
  const std::shared_ptr<ParkedCaches> parked = options_.parked;
  if (parked != nullptr) parked->expect(action.job);
  job.loop.post([stage = job.stage, parked, action] {
    stage->cache_wanted(action.cache_wanted);
    stage->free_weights();
    if (parked != nullptr) parked->settled(action.job);
  });
}

void NodeShell::perform(cluster::MeasurePeer action) {
  measuring_.post([this, action = std::move(action)] {
    Result<cluster::LinkFigures> figures =
        options_.measure ? options_.measure(action.peer, action.address)
                         : Result<cluster::LinkFigures>(Errc::kUnsupported, "links are not measured here");
    loop_.post([this, peer = action.peer, figures = std::move(figures)] {
      machine_.measured(peer, figures, system_now());
      act();
    });
  });
}

void NodeShell::perform(cluster::GiveUp action) {
  log_error("the cluster does not take this node: {}", action.why);
  if (options_.on_given_up) options_.on_given_up(action.why);
}

}  // namespace butterfly::runtime
