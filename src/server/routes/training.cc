// GET /training: how the runs that --training names stand.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "server/routes/routes.h"
#include "train/run_files.h"

namespace butterfly::server {
namespace {

constexpr size_t kPointsMax = 600;

}  // namespace

void training_status(ServerContext& context, ExchangePtr exchange) {
  if (context.settings.training.empty())
    throw ApiError(
        404, "invalid_request_error",
        "this server shows no training run; start it with --training FOLDER, the output_dir of one");
  Json runs = Json::array();
  for (const std::string& folder : context.settings.training) {
    const std::string name = std::filesystem::path(folder).lexically_normal().filename().string();
    Json run;
    try {
      run = parse_json(train::run_status_json(folder, kPointsMax));
    } catch (const Error& error) {
      run = {{"state", "none"}, {"why", error.what()}};
    }
    run["folder"] = name;
    runs.push_back(std::move(run));
  }
  respond_json(*exchange, to_text({{"runs", std::move(runs)}}));
}

}  // namespace butterfly::server
