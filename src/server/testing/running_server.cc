#include "server/testing/running_server.h"

#include "base/log.h"
#include "model/synthetic/random_model.h"

namespace butterfly::server::testing {

void write_test_model(const std::filesystem::path& path, uint32_t context, uint64_t seed) {
  model::RandomModelOptions options;
  options.vocabulary_size = 400;
  options.context_length = context;
  options.embedding_length = 64;
  options.block_count = 2;
  options.feed_forward_length = 128;
  options.head_count = 4;
  options.head_count_kv = 2;
  options.matrix_type = options.vocabulary_type = DType::kF32;
  options.seed = seed;
  model::write_random_model(path, options);
}

RunningServer::RunningServer(const std::function<void(Settings&)>& change) {
  set_log_level(LogLevel::kWarn);
  write_test_model(folder_ / "tiny.gguf");
  ServerOptions options;
  options.version = "0.0.0";
  options.settings.port = 0;
  options.settings.threads = 1;
  options.settings.management = (folder_ / "socket").string();
  if (change) change(options.settings);
  if (options.settings.models.empty()) options.settings.models = {"tiny=" + (folder_ / "tiny.gguf").string()};
  options.resolve_model = [](const std::string& text) { return std::filesystem::path(text); };
  server_ = std::make_unique<Server>(std::move(options));
  thread_ = std::thread([this] { clean_ = server_->run(false); });
}

bool RunningServer::drain() {
  if (thread_.joinable()) {
    server_->stop();
    thread_.join();
  }
  return clean_;
}

RunningServer::~RunningServer() { drain(); }

}  // namespace butterfly::server::testing
