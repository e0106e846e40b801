#include "runtime/training/training_worker.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include "base/log.h"
#include "runtime/training/training_session.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kFirstWordMax = std::chrono::seconds(10);

}  // namespace

TrainingWorker::TrainingWorker(Options options) : options_(std::move(options)) {}

TrainingWorker::~TrainingWorker() { stop(); }

void TrainingWorker::accept(std::unique_ptr<cluster::Link> link) {
  reap(false);
  const std::lock_guard lock(mutex_);
  if (stopping_ || visitors_.size() >= kVisitorsMax) return;
  Visitor& visitor = visitors_.emplace_back();
  visitor.link = std::make_shared<TrainLink>(std::move(link));
  visitor.thread = std::thread([this, &visitor] {
    serve(visitor.link);
    const std::lock_guard done_lock(mutex_);
    visitor.done = true;
  });
}

void TrainingWorker::serve(const std::shared_ptr<TrainLink>& link) {
  const auto first = link->receive(kFirstWordMax);
  if (!first || first->is_values || first->body.empty()) return;
  if (static_cast<uint8_t>(first->body[0]) == cluster::PeerGreeting::kType) {
    const auto greeting = cluster::decode_peer_greeting(first->body);
    std::shared_ptr<TrainingSession> session;
    {
      const std::lock_guard lock(mutex_);
      session = session_;
    }
    if (greeting && session != nullptr && session->run_number() == greeting->run)
      session->serve_peer(*greeting, link);
    return;
  }
  const auto message = cluster::decode_to_train_member(first->body);
  const auto* start = message ? std::get_if<cluster::StartTraining>(&*message) : nullptr;
  const std::string leader = options_.coordinator();
  if (start == nullptr) {
    log_warn("training: {} began with no job", link->peer().name);
  } else if (!leader.empty() && link->peer().key != leader) {
    log_warn("training: {} does not coordinate this cluster, and leads nothing here", link->peer().name);
  } else {
    lead(link, *start);
  }
}

void TrainingWorker::lead(const std::shared_ptr<TrainLink>& link, const cluster::StartTraining& start) {
  const auto session =
      std::make_shared<TrainingSession>(TrainingSession::Options{.leader = link,
                                                                 .start = start,
                                                                 .connect = options_.connect,
                                                                 .address = options_.address,
                                                                 .threads = options_.threads,
                                                                 .memory_bytes = options_.memory_bytes,
                                                                 .occupied = options_.occupied,
                                                                 .fetch_model = options_.fetch_model});
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    if (session_ != nullptr) session_->stop();
    session_ = session;
  }
  // Of this thread, which ends with the job, and of all that it starts.
  if (last_ && ::setpriority(PRIO_PROCESS, 0, 19) != 0) log_warn("training: its priority stays as it is");
  const std::string why = session->run();
  log_info("training for {} ended: {}", link->peer().name, why);
  session->free_memory();
  const std::lock_guard lock(mutex_);
  if (session_ != session) return;  // another job has begun
  session_.reset();
  if (options_.occupied) options_.occupied(false);
  changed_.notify_all();
}

void TrainingWorker::end_job() {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<TrainingSession> ending = session_;
  if (ending == nullptr) return;
  ending->stop();
  changed_.wait(lock, [&] { return session_ != ending; });
}

void TrainingWorker::reap(bool all) {
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

void TrainingWorker::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (session_ != nullptr) session_->stop();
    for (const Visitor& visitor : visitors_) visitor.link->close();
  }
  reap(true);
}

}  // namespace butterfly::runtime
