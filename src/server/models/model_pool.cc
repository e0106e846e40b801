#include "server/models/model_pool.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/free_memory.h"
#include "base/log.h"
#include "base/units.h"
#include "server/api/api_error.h"

namespace butterfly::server {
namespace {

// A request that has its answer may hold its model for a moment more; shorter than a client would wait before
// it tries again.
constexpr std::chrono::milliseconds kIdleWait{1000};
constexpr size_t kModelsMax = 1024;

std::string plain_name(const std::string& name) {
  constexpr std::string_view kLatest = ":latest";
  return name.ends_with(kLatest) ? name.substr(0, name.size() - kLatest.size()) : name;
}

ApiError cannot_load(const std::string& name, const std::string& why) {
  ApiError error(503, "server_error", fmt::format("the model '{}' cannot be loaded now: {}", name, why),
                 "model", "model_not_loaded");
  error.retry_after_s = 10;
  return error;
}

bool is_for(const ModelSpec& spec, const ModelReader& who) {
  return spec.owner == 0 || !who || *who == spec.owner;
}

}  // namespace

std::string_view model_state_name(ModelState state) {
  switch (state) {
    case ModelState::kUnloaded:
      return "unloaded";
    case ModelState::kLoading:
      return "loading";
    case ModelState::kReady:
      return "ready";
    case ModelState::kFailed:
      return "failed";
  }
  return "unknown";
}

ModelPool::ModelPool(std::vector<ModelSpec> specs, Options options) : options_(std::move(options)) {
  for (ModelSpec& spec : specs) {
    if (find(spec.name) != nullptr)
      fail(Errc::kInvalidArgument, "two models are called '{}'; give each a name of its own (NAME=FILE)",
           spec.name);
    entries_.emplace_back().info.spec = std::move(spec);
  }
}

ModelPool::Entry* ModelPool::find(const std::string& name, ModelReader who) {
  if (name.empty()) return entries_.empty() ? nullptr : &entries_.front();
  const auto called = [&](const std::string& text) -> Entry* {
    for (Entry& entry : entries_)
      if (entry.info.spec.name == text && is_for(entry.info.spec, who)) return &entry;
    return nullptr;
  };
  Entry* entry = called(name);
  return entry != nullptr ? entry : called(plain_name(name));
}

ModelPool::EnginePtr ModelPool::engine_for(const ModelSpec& spec) const {
  for (const Entry& entry : entries_)
    if (entry.info.model != nullptr && entry.info.model->shared()->is_of(spec))
      return entry.info.model->shared();
  return nullptr;
}

uint64_t ModelPool::used_bytes(const EnginePtr& held) const {
  std::set<const ModelEngine*> engines;
  uint64_t sum = 0;
  const auto add = [&](const EnginePtr& engine) {
    if (engines.insert(engine.get()).second) sum += engine->weight_bytes() + engine->cache_bytes();
  };
  if (held != nullptr) add(held);
  for (const Entry& entry : entries_) {
    if (entry.info.model == nullptr) continue;
    add(entry.info.model->shared());
    sum += entry.info.model->adapter_bytes();
  }
  return sum;
}

void ModelPool::forget(Entry& entry) {
  entry.info.model = nullptr;
  entry.info.state = ModelState::kUnloaded;
}

// Unloads idle models, the longest unused first, until it fits.
void ModelPool::make_room(const MemoryForecast& needed, const EnginePtr& held, const Entry& for_whom,
                          std::unique_lock<std::mutex>& lock) {
  const auto give_up = std::chrono::steady_clock::now() + kIdleWait;
  const uint64_t bytes =
      needed.adapter_bytes + (held != nullptr ? 0 : needed.weight_bytes + needed.cache_bytes);
  while (true) {
    const uint64_t used = used_bytes(held);
    Entry* oldest = nullptr;
    bool in_use = false;
    for (Entry& entry : entries_) {
      if (entry.info.model == nullptr) continue;
      if (entry.info.model.use_count() > 1) {
        in_use = true;
        continue;
      }
      if (oldest == nullptr || entry.info.used < oldest->info.used) oldest = &entry;
    }
    const uint64_t room = options_.memory_bytes > 0
                              ? options_.memory_bytes - std::min(options_.memory_bytes, used)
                              : free_memory_bytes();
    if (bytes <= room) return;
    if (oldest == nullptr && in_use && std::chrono::steady_clock::now() < give_up) {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      lock.lock();
      continue;
    }
    if (oldest == nullptr)
      throw cannot_load(for_whom.info.spec.name,
                        fmt::format("it needs {}, {} are free, and no loaded model is idle",
                                    format_bytes(bytes), format_bytes(room)));
    log_info("{}: unloaded to make room for {}", oldest->info.spec.name, for_whom.info.spec.name);
    ModelPtr gone = std::move(oldest->info.model);
    forget(*oldest);
    lock.unlock();  // ending an engine takes a step's time
    gone.reset();
    lock.lock();
  }
}

// To others, a model that somebody had made does not exist: its name may tell what it is for.
ModelPool::Entry& ModelPool::find_or_throw(const std::string& name, ModelReader who) {
  if (Entry* entry = find(name, who)) return *entry;
  std::string names;
  for (const Entry& known : entries_)
    if (is_for(known.info.spec, who)) names += (names.empty() ? "" : ", ") + known.info.spec.name;
  throw ApiError(404, "invalid_request_error",
                 fmt::format("the model '{:.200}' does not exist here; there are: {}", name, names), "model",
                 "model_not_found");
}

ModelPtr ModelPool::ready(const std::string& name, ModelReader who) {
  const std::lock_guard lock(mutex_);
  Entry& entry = find_or_throw(name, who);
  if (entry.info.model == nullptr) throw ModelNotLoaded{entry.info.spec.name};
  entry.info.used = std::chrono::steady_clock::now();
  return entry.info.model;
}

bool ModelPool::load_then(const std::string& name, Then then) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || waiters_.size() >= kWaitersMax) return false;
  waiters_.push_back({name, std::move(then)});
  if (!loader_.joinable()) loader_ = std::thread([this] { run_loader(); });
  wanted_.notify_one();
  return true;
}

// All who wait for a model hear of it together, so it is loaded once, and fails once, for all of them.
void ModelPool::run_loader() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [&] { return stopping_ || !waiters_.empty(); });
    if (stopping_) return;
    const std::string name = waiters_.front().name;
    lock.unlock();
    std::optional<ApiError> error;
    ModelPtr model;  // held until they have it: nobody may unload it in between
    try {
      model = acquire(name);
    } catch (const ApiError& failed) {
      error = failed;
    } catch (const std::exception& failed) {
      error = cannot_load(name, failed.what());
    }
    lock.lock();
    std::list<Waiter> told;
    for (auto it = waiters_.begin(); it != waiters_.end();) {
      const auto next = std::next(it);
      if (it->name == name) told.splice(told.end(), waiters_, it);
      it = next;
    }
    lock.unlock();
    for (const Waiter& waiter : told) waiter.then(error ? &*error : nullptr);
    told.clear();
    model.reset();
    lock.lock();
  }
}

ModelPool::~ModelPool() { clear(); }

ModelPtr ModelPool::acquire(const std::string& name) {
  std::unique_lock lock(mutex_);
  Entry* entry = nullptr;
  loaded_.wait(lock, [&] {
    entry = &find_or_throw(name);  // every time: it may have been removed meanwhile
    return entry->info.model != nullptr || !loading_;
  });
  if (entry->info.model == nullptr) {
    loading_ = true;
    entry->info.state = ModelState::kLoading;
    ModelPtr model;
    std::string why;
    try {
      const EnginePtr engine = engine_for(entry->info.spec);
      lock.unlock();  // reads the file's head
      const MemoryForecast needed = options_.forecast(entry->info.spec);
      lock.lock();
      make_room(needed, engine, *entry, lock);
      lock.unlock();
      model = options_.load(entry->info.spec, engine);
      lock.lock();
    } catch (const std::exception& error) {
      if (!lock.owns_lock()) lock.lock();
      why = error.what();
    }
    loading_ = false;
    entry->info.why = why;
    entry->info.state = model != nullptr ? ModelState::kReady : ModelState::kFailed;
    if (model != nullptr) {
      entry->info.since = model->loaded_at();
    }
    entry->info.model = std::move(model);
    loaded_.notify_all();
    if (entry->info.model == nullptr) {
      log_warn("{}: cannot be loaded: {}", entry->info.spec.name, why);
      throw cannot_load(entry->info.spec.name, why);
    }
  }
  entry->info.used = std::chrono::steady_clock::now();
  return entry->info.model;
}

void ModelPool::add(ModelSpec spec) {
  const std::lock_guard lock(mutex_);
  if (const Entry* known = find(spec.name)) {
    if (known->info.spec.path == spec.path) return;
    throw ApiError(400, "invalid_request_error",
                   fmt::format("'{}' is the name of {} here; give the other a name of its own", spec.name,
                               known->info.spec.path.string()),
                   "model");
  }
  if (entries_.size() >= kModelsMax)
    throw ApiError(400, "invalid_request_error", fmt::format("a server has at most {} models", kModelsMax),
                   "model");
  entries_.emplace_back().info.spec = std::move(spec);
}

model::PackedWeights ModelPool::packed_weights(const std::filesystem::path& file) {
  std::unique_lock lock(mutex_);
  loaded_.wait(lock, [&] { return !loading_; });
  for (const Entry& entry : entries_)
    if (const ModelPtr& model = entry.info.model; model != nullptr && entry.info.spec.path == file)
      if (const auto& weights = model->loaded().weights) return weights->packed;
  return {};
}

bool ModelPool::remove(const std::string& name) {
  std::unique_lock lock(mutex_);
  loaded_.wait(lock, [&] { return !loading_; });
  const Entry* entry = find(name);
  if (entry == nullptr) return true;
  if (entry->info.model != nullptr && entry->info.model.use_count() > 1) return false;
  const ModelSpec spec = entry->info.spec;
  ModelPtr gone = entry->info.model;
  entries_.remove_if([&](const Entry& other) { return &other == entry; });
  if (gone == nullptr) return true;
  loading_ = true;  // nobody loads another one while it goes
  lock.unlock();
  gone.reset();
  if (options_.unloaded) options_.unloaded(spec);
  lock.lock();
  loading_ = false;
  loaded_.notify_all();
  return true;
}

bool ModelPool::unload(const std::string& name) {
  std::unique_lock lock(mutex_);
  loaded_.wait(lock, [&] { return !loading_; });
  Entry* entry = find(name);
  if (entry == nullptr || entry->info.model == nullptr || entry->info.model.use_count() > 1) return false;
  ModelPtr gone = std::move(entry->info.model);
  forget(*entry);
  loading_ = true;  // nobody loads it while it goes
  lock.unlock();
  gone.reset();
  if (options_.unloaded) options_.unloaded(entry->info.spec);
  lock.lock();
  loading_ = false;
  loaded_.notify_all();
  return true;
}

std::vector<ModelInfo> ModelPool::list(ModelReader who) const {
  const std::lock_guard lock(mutex_);
  std::vector<ModelInfo> list;
  std::set<const ModelEngine*> counted;
  for (const Entry& entry : entries_) {
    if (!is_for(entry.info.spec, who)) continue;
    ModelInfo& info = list.emplace_back(entry.info);
    if (info.model == nullptr) continue;
    info.uses = static_cast<size_t>(info.model.use_count() - 2);
    const ModelEngine& engine = *info.model->shared();
    info.bytes = info.model->adapter_bytes();
    if (!counted.insert(&engine).second) continue;
    info.weight_bytes = engine.weight_bytes();
    info.bytes += engine.weight_bytes() + engine.cache_bytes();
  }
  return list;
}

bool ModelPool::has(const std::string& name, ModelReader who) const {
  const std::lock_guard lock(mutex_);
  return const_cast<ModelPool*>(this)->find(name, who) != nullptr;
}

void ModelPool::clear() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_all();
  if (loader_.joinable()) loader_.join();
  waiters_.clear();
  std::vector<ModelPtr> gone;
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.info.model == nullptr) continue;
    entry.info.model->engine().stop();
    gone.push_back(std::move(entry.info.model));
    forget(entry);
  }
}

}  // namespace butterfly::server
