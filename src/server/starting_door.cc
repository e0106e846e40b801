#include "server/starting_door.h"

#include <fmt/format.h>

#include "base/units.h"
#include "cluster/member/status.h"

namespace butterfly::server {

StartingDoor::StartingDoor(const std::string& socket, std::string model) : model_(std::move(model)) {
  HttpServerOptions options;
  options.network = false;
  options.unix_path = socket;
  http_ = std::make_unique<HttpServer>(
      std::move(options), [](const HttpRequest&, Door) { return nullptr; },
      [this](const ExchangePtr& exchange, Door) { answer(*exchange); });
  thread_ = std::thread([this] { http_->run(); });
}

StartingDoor::~StartingDoor() {
  http_->stop();
  thread_.join();
}

void StartingDoor::answer(Exchange& exchange) const {
  cluster::ClusterStatus status;
  cluster::JobStatus& job = status.jobs.emplace_back();
  job.id = cluster::kFirstJob;
  job.model = model_;
  job.reason = fmt::format(
      "starting for {}: this machine is measured at its first start (10 to 20 s), then the model is read",
      format_duration(system_now() - began_));
  HttpResponse response;
  response.body = cluster::to_json(status);
  response.close = true;
  exchange.respond(std::move(response));
}

}  // namespace butterfly::server
