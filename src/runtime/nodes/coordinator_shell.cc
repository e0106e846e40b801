#include "runtime/nodes/coordinator_shell.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kCoordinatorTick = std::chrono::milliseconds(50);
constexpr Duration kDiskEvery = std::chrono::seconds(1);
constexpr size_t kEventsPerTell = 100;
// Between looks at who is slow; large clusters take longer to plan.
constexpr Duration kBalanceOften = std::chrono::seconds(2), kBalanceRarely = std::chrono::seconds(20);
constexpr size_t kNodesForOften = 16;

cluster::CoordinatorConfig with_time_of_day(cluster::CoordinatorConfig config) {
  config.unix_ms = unix_ms();
  return config;
}

}  // namespace

CoordinatorShell::CoordinatorShell(Options options)
    : options_(std::move(options)),
      machine_(with_time_of_day(options_.config), system_now()),
      loop_([this] { tick(); }, kCoordinatorTick),
      forecaster_([] {}, kNever),
      disk_([this] { look_at_disk(); }, kDiskEvery),
      links_(loop_, {.on_message = [this](auto link, const auto& message) { received(link, message); },
                     .on_closed =
                         [this](auto link, const std::string& why) {
                           feed([&](auto& machine, TimePoint at) { machine.link_closed(link, why, at); });
                         }}) {}

CoordinatorShell::~CoordinatorShell() { stop(); }

void CoordinatorShell::start() {
  forecaster_.start();
  loop_.start();
  disk_.start();
}

void CoordinatorShell::stop() {
  if (stopped_.exchange(true)) return;
  for (const JobPtr& job : all_jobs()) {
    job->options.steps->on_lost(nullptr);
    job->options.steps->resume();  // nobody waits for a pause any more
  }
  disk_.stop();
  loop_.stop();
  if (options_.keep_links) keep_links();  // what came since the disk was last looked at
  links_.clear();
  for (const JobPtr& job : all_jobs()) {
    job->chains.stop();
    job->planner.stop();
  }
  ++plans_wanted_;
  forecaster_.stop();
}

// ---- Jobs ----

std::vector<CoordinatorShell::JobPtr> CoordinatorShell::all_jobs() const {
  const std::lock_guard lock(machine_mutex_);
  std::vector<JobPtr> jobs;
  for (const auto& [id, job] : jobs_) jobs.push_back(job);
  return jobs;
}

void CoordinatorShell::add_job(cluster::JobId id, JobOptions options) {
  const auto job = std::make_shared<RunningJob>(id, std::move(options));
  job->options.steps->on_lost([this](cluster::Epoch epoch, const Status& why) {
    post_event([epoch, why](cluster::Coordinator& machine, TimePoint at) {
      machine.steps_failed(epoch, {}, why.text(), at);
    });
  });
  job->planner.start();
  job->chains.start();
  loop_.ask([&] {
    feed([&](cluster::Coordinator& machine, TimePoint at) {
      BF_CHECK(jobs_.emplace(id, job).second) << "[coordinator shell] job " << id << " is there already";
      machine.set_job(id, job->options.model, at);
    });
    return true;
  });
}

bool CoordinatorShell::end_job(cluster::JobId id) {
  const JobPtr job = loop_.ask([&]() -> JobPtr {
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) return nullptr;
    const JobPtr ended = found->second;
    feed([&](cluster::Coordinator& machine, TimePoint at) { machine.set_job(id, {}, at); });
    ended->ended = true;
    const std::lock_guard lock(machine_mutex_);
    jobs_.erase(id);
    losses_.erase(id);
    return ended;
  });
  if (job == nullptr) return false;
  ++plans_wanted_;  // a forecast of it is given up
  job->options.steps->on_lost(nullptr);
  job->options.steps->remove();
  job->chains.stop();
  job->planner.stop();
  forecaster_.ask([] { return true; });  // nobody works out what its losses would mean any more
  return true;
}

// ---- Events ----

void CoordinatorShell::feed(const Event& event) {
  {
    const std::lock_guard lock(machine_mutex_);
    event(machine_, system_now());
  }
  act();
}

void CoordinatorShell::post_event(Event event) {
  loop_.post([this, event = std::move(event)] { feed(event); });
}

void CoordinatorShell::tick() {
  feed([](cluster::Coordinator& machine, TimePoint at) { machine.tick(at); });
  look_at_balance();
}

void CoordinatorShell::accept(std::unique_ptr<cluster::Link> link) {
  auto box = std::make_shared<std::unique_ptr<cluster::Link>>(std::move(link));
  loop_.post([this, box] {
    const cluster::NodeId peer = (*box)->peer();
    const cluster::LinkNumber number = links_.add(std::move(*box));
    feed([&](cluster::Coordinator& machine, TimePoint at) { machine.link_opened(number, peer, at); });
  });
}

void CoordinatorShell::received(cluster::LinkNumber link, const cluster::Message& message) {
  const auto decoded = cluster::decode_to_coordinator(message.body);
  feed([&](cluster::Coordinator& machine, TimePoint at) {
    if (decoded) return machine.received(link, *decoded, at);
    machine.received_garbage(link, decoded.status().text(), at);
  });
}

Status CoordinatorShell::remove_node(const std::string& name_or_key) {
  return loop_.ask([&] {
    Status status;
    feed([&](cluster::Coordinator& machine, TimePoint at) { status = machine.remove_node(name_or_key, at); });
    return status;
  });
}

Status CoordinatorShell::drain_node(const std::string& name_or_key) {
  return loop_.ask([&] {
    Status status;
    feed([&](cluster::Coordinator& machine, TimePoint at) { status = machine.drain_node(name_or_key, at); });
    return status;
  });
}

Status CoordinatorShell::resume_node(const std::string& name_or_key) {
  return loop_.ask([&] {
    Status status;
    feed([&](cluster::Coordinator& machine, TimePoint at) { status = machine.resume_node(name_or_key, at); });
    return status;
  });
}

void CoordinatorShell::set_leaders(cluster::Leaders leaders) {
  post_event([leaders = std::move(leaders)](cluster::Coordinator& machine, TimePoint) {
    machine.set_leaders(leaders);
  });
}

void CoordinatorShell::forbid(const std::string& key) {
  post_event([key](cluster::Coordinator& machine, TimePoint) { machine.forbid(key); });
}

void CoordinatorShell::steps_failed(cluster::Epoch epoch, const cluster::NodeId& peer,
                                    const std::string& why) {
  post_event([epoch, peer, why](cluster::Coordinator& machine, TimePoint at) {
    machine.steps_failed(epoch, peer, why, at);
  });
}

void CoordinatorShell::node_refused(const cluster::NodeId& peer, const std::string& why) {
  post_event(
      [peer, why](cluster::Coordinator& machine, TimePoint at) { machine.node_refused(peer, why, at); });
}

void CoordinatorShell::process_ended(const std::string& name, const std::string& how,
                                     const std::string& what_follows, bool for_good) {
  post_event([=](cluster::Coordinator& machine, TimePoint at) {
    machine.process_ended(name, how, what_follows, for_good, at);
  });
}

// On a thread of its own: disks can be slow.
void CoordinatorShell::look_at_disk() {
  if (options_.roster != nullptr) look_at_roster();
  if (options_.keep_links) keep_links();
}

void CoordinatorShell::keep_links() {
  std::vector<cluster::KnownLink> links;
  {
    const std::lock_guard lock(machine_mutex_);
    if (machine_.links_changes() == links_kept_) return;
    links_kept_ = machine_.links_changes();
    links = machine_.known_links(system_now());
  }
  try {
    options_.keep_links(std::move(links));
  } catch (const Error& error) {
    log_warn("measured links are not kept: {}", error.what());
  }
}

// Other programs take nodes out of the cluster by writing the roster.
void CoordinatorShell::look_at_roster() {
  try {
    for (const cluster::NodeId& node : options_.roster->refresh()) {
      post_event([key = node.key](cluster::Coordinator& machine, TimePoint at) {
        machine.forbid(key);
        (void)machine.remove_node(key, at);
      });
      if (options_.cut_off) options_.cut_off(node.key);
    }
  } catch (const Error& error) {
    log_warn("the list of nodes: {}", error.what());
  }
}

// ---- Actions ----

void CoordinatorShell::act() {
  std::vector<cluster::CoordinatorAction> actions;
  {
    const std::lock_guard lock(machine_mutex_);
    actions = machine_.take_actions();
  }
  for (cluster::CoordinatorAction& action : actions)
    std::visit([this](auto& a) { perform(std::move(a)); }, action);
  tell_events();
  changed_.notify_all();
}

void CoordinatorShell::tell_events() {
  std::vector<cluster::EventStatus> fresh;
  {
    const std::lock_guard lock(machine_mutex_);
    if (machine_.events().last_number() == last_event_) return;
    fresh = cluster::events_of(machine_, system_now(), unix_ms(), last_event_, kEventsPerTell);
    last_event_ = machine_.events().last_number();
  }
  for (const cluster::EventStatus& event : fresh) {
    log_info("cluster: {}{}{}{}{}", event.kind, event.node.empty() ? "" : " ", event.node,
             event.text.empty() ? "" : ": ", event.text);
    if (options_.event) options_.event(event);
  }
}

void CoordinatorShell::perform(cluster::SendToWorker action) {
  links_.send(action.link, cluster::head_of(action.message), cluster::encode(action.message));
}

void CoordinatorShell::perform(cluster::CloseLink action) { links_.close(action.link); }

void CoordinatorShell::perform(cluster::MakePlan action) {
  ++plans_wanted_;
  const JobPtr& job = run_of(action.question.job);
  job->planner.post([this, job, question = std::move(action.question)] {
    Result<cluster::Placement> placement = job->options.plan(question);
    loop_.post([this, job, epoch = question.epoch, placement = std::move(placement)] {
      planned(job, epoch, placement);
    });
  });
}

void CoordinatorShell::planned(const JobPtr& running, cluster::Epoch epoch,
                               Result<cluster::Placement> placement) {
  if (running->ended) return;
  const Status status = placement ? Status() : placement.status();
  bool hopeless;
  {
    const std::lock_guard lock(machine_mutex_);
    machine_.planned(epoch, std::move(placement), system_now());
    const cluster::Job* job = machine_.job(running->id);
    hopeless = !status && job != nullptr && job->serving_epoch() == 0 && !job->change_phase();
  }
  JobSteps& steps = *running->options.steps;
  // Nobody can know when a node comes that makes it fit: whoever waits gets the figures now.
  if (hopeless && status.code() == Errc::kOutOfMemory) steps.give_up(status);
  // Before the status page says that it serves: a request that comes then must not meet the old answer.
  if (status) steps.expect();
  act();
}

// How long it waits for the step under way is the machine's decision.
void CoordinatorShell::perform(cluster::PauseSteps action) {
  run_of(action.job)->options.steps->pause([this, next = action.next] {
    post_event([next](cluster::Coordinator& machine, TimePoint at) { machine.steps_paused(next, at); });
  });
}

void CoordinatorShell::perform(cluster::HaltSteps action) {
  const JobPtr& job = run_of(action.job);
  job->chain_epoch = 0;  // a chain that is still being connected is not wanted any more
  job->options.steps->remove();
}

void CoordinatorShell::perform(cluster::ServeSteps action) {
  const JobPtr& job = run_of(action.job);
  if (job->chain_epoch == action.epoch) return job->options.steps->resume();  // it was never taken away
  job->chain_epoch = action.epoch;
  job->chains.post([this, job, action = std::move(action)] {
    cluster::NodeId to_blame;
    const auto connected =
        job->options.steps->connect(action.epoch, action.placement, action.addresses, to_blame);
    loop_.post([this, job, epoch = action.epoch, connected, to_blame] {
      if (job->ended || epoch != job->chain_epoch) return;  // another plan holds by now
      if (connected) (*connected)();
      feed([&](cluster::Coordinator& machine, TimePoint at) {
        if (connected) return machine.steps_connected(epoch, at);
        machine.steps_failed(epoch, to_blame, connected.status().text(), at);
      });
      if (connected) forecast(job);
    });
  });
}

// What the loss of each node would mean, for status pages: planned in quiet moments, beside what is needed
// now.
void CoordinatorShell::forecast(const JobPtr& running) {
  cluster::PlanQuestion question;
  cluster::Placement current;
  {
    const std::lock_guard lock(machine_mutex_);
    const cluster::Job* job = machine_.job(running->id);
    if (job == nullptr || job->serving_placement() == nullptr) return;
    question = job->question(system_now());
    current = *job->serving_placement();
  }
  forecaster_.post([this, running, question = std::move(question), current = std::move(current),
                    wanted = plans_wanted_.load()] {
    const auto plan = [&](const cluster::PlanQuestion& asked) -> Result<cluster::Placement> {
      if (plans_wanted_ != wanted) return Status(Errc::kCancelled, "the plan has changed");
      return running->options.plan(asked);
    };
    auto losses = cluster::forecast_losses(question, current, plan);
    if (plans_wanted_ != wanted) return;
    loop_.post([this, running, losses = std::move(losses)] {
      const std::lock_guard lock(machine_mutex_);
      if (!running->ended) losses_[running->id] = losses;
    });
  });
}

// Nodes that became slow are found by the steps they compute; whether a move pays is worked out beside what
// is needed now.
void CoordinatorShell::look_at_balance() {
  const TimePoint now = system_now();
  if (now < balance_at_) return;
  const std::lock_guard lock(machine_mutex_);
  balance_at_ = now + (machine_.members().size() > kNodesForOften ? kBalanceRarely : kBalanceOften);
  for (const auto& [id, running] : jobs_) {
    const cluster::Job* job = machine_.job(id);
    if (job == nullptr || !running->options.balance) continue;
    const auto slowness = running->slowness.look(machine_, *job);
    if (slowness.empty() || running->balancing || job->change_phase()) continue;
    running->balancing = true;
    cluster::PlanQuestion question = job->question(now, false);
    const double now_s = std::chrono::duration<double>(now.time_since_epoch()).count();
    forecaster_.post([this, job_ptr = running, question = std::move(question), slowness, now_s,
                      epoch = job->serving_epoch()] {
      const JobOptions::Balance answer = job_ptr->options.balance(question, slowness, now_s);
      loop_.post([this, job_ptr, answer, epoch] {
        job_ptr->balancing = false;
        if (!answer.move || job_ptr->ended) return;
        feed([&](cluster::Coordinator& machine, TimePoint at) {
          const cluster::Job* served = machine.job(job_ptr->id);
          if (served == nullptr || served->serving_epoch() != epoch) return;
          machine.set_slowness(job_ptr->id, answer.slowness, answer.reason, at);
        });
      });
    });
  }
}

// ---- State ----

cluster::ClusterStatus CoordinatorShell::status(uint64_t events_after, size_t events_max) const {
  const std::lock_guard lock(machine_mutex_);
  return cluster::status_of(machine_, losses_, system_now(), unix_ms(), events_after, events_max);
}

std::vector<cluster::EventStatus> CoordinatorShell::events(uint64_t after, size_t count_max) const {
  const std::lock_guard lock(machine_mutex_);
  return cluster::events_of(machine_, system_now(), unix_ms(), after, count_max);
}

std::string CoordinatorShell::load_json() const {
  const std::lock_guard lock(machine_mutex_);
  return cluster::load_json(machine_, system_now(), unix_ms());
}

bool CoordinatorShell::wait_until_serving(Duration timeout, const std::function<bool()>& cancelled,
                                          std::string& why) const {
  const Deadline deadline(SystemClock::instance(), timeout);
  while (true) {
    for (const JobPtr& job : all_jobs())
      if (!cluster::is_training(job->id) && job->options.steps->connected()) return true;
    std::unique_lock lock(machine_mutex_);
    const cluster::Job* first = jobs_.empty() ? nullptr : machine_.job(jobs_.begin()->first);
    why = first == nullptr ? "it is about to start" : first->why_not_serving();
    if (deadline.expired() || (cancelled && cancelled())) return false;
    changed_.wait_for(lock, std::min<Duration>(deadline.remaining(), std::chrono::milliseconds(200)));
  }
}

}  // namespace butterfly::runtime
