// A whole server with a small random model, in a thread of the test.
#pragma once
#include <memory>
#include <string>
#include <thread>

#include "base/testing/temp_dir.h"
#include "server/server.h"
#include "server/testing/http_client.h"

namespace butterfly::server::testing {

// Random weights, bytes as vocabulary, `context` positions; the same file for the same numbers.
void write_test_model(const std::filesystem::path& path, uint32_t context = 512, uint64_t seed = 1);

// Owns the server, its folder and the thread that runs it; ends them in the destructor.
class RunningServer {
 public:
  // `change` edits the settings; without models in them the server has one called "tiny".
  explicit RunningServer(const std::function<void(Settings&)>& change = {});
  ~RunningServer();

  uint16_t port() const { return server_->port(); }
  Server& server() { return *server_; }
  const butterfly::testing::TempDir& folder() const { return folder_; }
  // Ends as after SIGTERM; false when requests were cut.
  bool drain();

  Reply post(std::string_view path, std::string_view body, std::string_view fields = {}) const {
    return ask(port(), "POST", path, body, fields);
  }
  Reply get(std::string_view path, std::string_view fields = {}) const {
    return ask(port(), "GET", path, {}, fields);
  }

 private:
  butterfly::testing::TempDir folder_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
  bool clean_ = true;
};

}  // namespace butterfly::server::testing
