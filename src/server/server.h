// The server as a whole: models, network, routes; from start to drain.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "server/settings/settings.h"

namespace butterfly::runtime {
class ClusterStart;
class LeadShell;
}  // namespace butterfly::runtime

namespace butterfly::server {

struct ServerOptions {
  Settings settings;
  std::string version;
  // Turns what the user wrote after -m into a path (names from the store).
  std::function<std::filesystem::path(const std::string&)> resolve_model;
  // The cluster that the first model runs on; null: it runs here.
  std::shared_ptr<runtime::ClusterStart> cluster = nullptr;
  // Why it is this process that serves, where several could; null: there is no other.
  std::shared_ptr<runtime::LeadShell> lead = nullptr;
};

// Owns models, engines, threads and ports. One thread constructs and runs it; stop() may come from any.
// Requests that fail are answered so and leave the rest as it is.
class Server {
 public:
  // Checks everything, opens the ports and loads the models (unless `lazy`). Throws Error; for an address
  // that others can reach without an API key it says how to make one.
  explicit Server(ServerOptions options);
  ~Server();

  // Where it listens, once constructed: "http://127.0.0.1:8080".
  std::string url() const;
  uint16_t port() const;
  bool needs_key() const;
  std::string first_model() const;
  std::string management_path() const;
  // Why the cluster serves nothing now; empty: it does, or there is none.
  std::string why_no_cluster() const;

  // Serves until stop(), or SIGTERM or SIGINT if `signals`: the first drains, the second ends at once.
  // Returns false when requests had to be cut.
  bool run(bool signals);
  // From any thread: drains.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace butterfly::server
