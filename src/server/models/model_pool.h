// The models of a server by name: loaded when asked for, unloaded when idle and memory is needed.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/api/api_error.h"
#include "server/models/served_model.h"

namespace butterfly::server {

enum class ModelState { kUnloaded, kLoading, kReady, kFailed };
std::string_view model_state_name(ModelState state);

struct ModelInfo {
  ModelSpec spec;
  ModelState state = ModelState::kUnloaded;
  // In memory; 0 unless ready. Weights and cache that several names share count with the first of them.
  uint64_t bytes = 0;
  uint64_t weight_bytes = 0;                      // of these
  std::string why;                                // the last load failed
  std::chrono::system_clock::time_point since{};  // loaded
  std::chrono::steady_clock::time_point used{};
  size_t uses = 0;  // by requests, now
  ModelPtr model;   // if ready
};

// Thrown by ModelPool::ready(): ask again when it is loaded.
struct ModelNotLoaded {
  std::string name;  // of the entry
};

// Who asks: the number of an API key's owner, who sees what is everybody's and what is theirs. Absent: the
// server itself, which sees all.
using ModelReader = std::optional<uint64_t>;

// Thread-safe. At most one model loads at a time: on the thread that acquires it, or on the pool's own for
// those who do not want to wait.
class ModelPool {
 public:
  // How a model is made; tests count and fail.
  using EnginePtr = std::shared_ptr<ModelEngine>;
  // `engine`: of a loaded name over the same file; null: there is none.
  using Load = std::function<ModelPtr(const ModelSpec& spec, const EnginePtr& engine)>;
  using Forecast = std::function<MemoryForecast(const ModelSpec& spec)>;
  struct Options {
    uint64_t memory_bytes = 0;  // of all models together; 0: what the machine has free
    Load load;
    Forecast forecast;
    // After a model was unloaded by unload(), and before it can be loaded again; may be null.
    std::function<void(const ModelSpec& spec)> unloaded;
  };
  // Throws Error kInvalidArgument for a name that comes twice.
  ModelPool(std::vector<ModelSpec> specs, Options options);

  // The model of this name, loaded; "" is the first one, and Ollama's ":latest" is ignored. Keep the pointer
  // while it is used: it is what makes a model not idle. Throws ApiError 404 (no such model) or 503 (it
  // cannot be loaded now).
  ModelPtr acquire(const std::string& name);
  // The same for threads that must not wait: throws ModelNotLoaded where acquire() would load or wait.
  ModelPtr ready(const std::string& name, ModelReader who = {});
  // Loads it on the pool's own thread, if need be, and calls `then` from there: with the error, or with null
  // when the model is there. False: too many wait already.
  using Then = std::function<void(const ApiError* error)>;
  bool load_then(const std::string& name, Then then);
  // One more, not loaded yet. Throws ApiError 400 where the name is there already, with another file.
  void add(ModelSpec spec);
  // It is not there any more. False: it is in use. Waits for a model that is being loaded.
  bool remove(const std::string& name);
  // The matrices of a loaded model over this file, for somebody who reads them; empty: none is loaded. Waits
  // for a model that is being loaded.
  model::PackedWeights packed_weights(const std::filesystem::path& file);
  // False if it is in use or not loaded. Waits for a model that is being loaded.
  bool unload(const std::string& name);
  std::vector<ModelInfo> list(ModelReader who = {}) const;
  bool has(const std::string& name, ModelReader who = {}) const;
  void clear();  // unloads all, also those in use: for the end
  ~ModelPool();

 private:
  struct Entry {
    ModelInfo info;
  };
  Entry* find(const std::string& name, ModelReader who = {});
  Entry& find_or_throw(const std::string& name, ModelReader who = {});
  void run_loader();
  // The engine of a loaded name over the same file; null: none is.
  EnginePtr engine_for(const ModelSpec& spec) const;
  // Engines that several names have count once. `held`: the one of the name to come.
  uint64_t used_bytes(const EnginePtr& held) const;
  void make_room(const MemoryForecast& needed, const EnginePtr& held, const Entry& for_whom,
                 std::unique_lock<std::mutex>& lock);
  static void forget(Entry& entry);

  Options options_;
  mutable std::mutex mutex_;
  std::condition_variable loaded_;
  bool loading_ = false;
  std::list<Entry> entries_;

  struct Waiter {
    std::string name;
    Then then;
  };
  static constexpr size_t kWaitersMax = 256;
  std::list<Waiter> waiters_;  // first come first
  std::condition_variable wanted_;
  bool stopping_ = false;
  std::thread loader_;  // from the first waiter on
};

}  // namespace butterfly::server
