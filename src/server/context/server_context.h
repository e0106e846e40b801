// What routes work with.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "server/context/access.h"
#include "server/fine_tuning/fine_tuner.h"
#include "server/generation/quotas.h"
#include "server/http/http_server.h"
#include "server/models/model_pool.h"
#include "server/settings/settings.h"
#include "server/streams/stream_table.h"

namespace butterfly::runtime {
class ClusterHost;
}  // namespace butterfly::runtime

namespace butterfly::server {

// One per server; outlives every request.
struct ServerContext {
  Settings settings;
  std::string version;      // "0.1.0"
  std::string fingerprint;  // of the program: equal ones give equal bits
  AccessPolicy access{AccessOptions{}};
  std::unique_ptr<Compute> compute;               // of the engines
  std::shared_ptr<runtime::ClusterHost> cluster;  // null: this server has none
  std::unique_ptr<ModelPool> models;
  std::unique_ptr<StreamTable> streams;  // null: no journal is kept
  std::unique_ptr<FileStore> files;      // null: nothing is fine-tuned here
  std::unique_ptr<FineTuner> fine_tuner;
  std::shared_ptr<Quotas> quotas = std::make_shared<Quotas>(QuotaOptions{});
  std::unique_ptr<HttpServer> http;
  std::chrono::system_clock::time_point started = std::chrono::system_clock::now();
  std::atomic<bool> draining{false};
  std::function<bool()> may_speak;    // whether this process leads its cluster now; null: nobody else could
  std::function<void()> begin_drain;  // as SIGTERM does
  // Another model, by what -m takes ("name=file"): its name. Not loaded yet. Throws Error and ApiError.
  std::function<std::string(const std::string& text)> add_model;

  struct Counters {
    std::atomic<uint64_t> requests{0};
    std::atomic<uint64_t> queue_full{0};
  } counters;
};

}  // namespace butterfly::server
