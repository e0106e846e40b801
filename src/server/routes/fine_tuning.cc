// /v1/fine_tuning/jobs: adapters that learn from uploaded files, beside what is served.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/secret.h"
#include "server/api/fields.h"
#include "server/fine_tuning/fine_tuner.h"
#include "server/routes/route_table.h"
#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

constexpr size_t kPageMax = 100;

FineTuner& tuner_of(ServerContext& context) {
  if (context.fine_tuner == nullptr)
    throw ApiError(404, "invalid_request_error",
                   "this server fine-tunes nothing; start it with --fine-tuning FOLDER", {}, "unknown_url");
  return *context.fine_tuner;
}

// A number above 0, or "auto", which says nothing.
std::optional<double> number_or_auto(const Json& object, const std::string& prefix, const char* name,
                                     double max) {
  if (!object.contains(name) || object[name].is_null() || object[name] == "auto") return std::nullopt;
  const Json& value = object[name];
  const double number = value.is_number() ? value.get<double>() : 0;
  if (!(number > 0) || number > max)
    bad_field(prefix + name,
              fmt::format("'{}{}': expected \"auto\" or a number above 0 and up to {}", prefix, name, max));
  return number;
}

const Json& object_in(const Json& of, const std::string& name, const std::string& param) {
  static const Json kNone = Json::object();
  if (!of.contains(name) || of[name].is_null()) return kNone;
  if (!of[name].is_object()) bad_field(param, fmt::format("'{}': expected an object", param));
  return of[name];
}

void read_hyperparameters(const Json& object, const std::string& prefix, TuningJob& job) {
  constexpr double kEpochsMax = 50, kBatchMax = 256, kMultiplierMax = 100,
                   kBetaMax = 10;  // OpenAI's bounds, and ours
  if (const auto epochs = number_or_auto(object, prefix, "n_epochs", kEpochsMax)) job.epochs = epochs;
  if (const auto size = number_or_auto(object, prefix, "batch_size", kBatchMax)) {
    if (*size != std::floor(*size)) bad_field(prefix + "batch_size", "'batch_size': expected a whole number");
    job.batch_size = static_cast<uint64_t>(*size);
  }
  if (const auto times = number_or_auto(object, prefix, "learning_rate_multiplier", kMultiplierMax))
    job.rate_multiplier = times;
  if (const auto beta = number_or_auto(object, prefix, "beta", kBetaMax)) job.beta = *beta;
}

TuningJob job_of(const Json& body) {
  const Fields fields(body, kFineTuningFields);
  TuningJob job;
  job.model = fields.string("model");
  job.training_file = fields.string("training_file");
  job.validation_file = fields.has("validation_file") ? fields.string("validation_file") : "";
  job.suffix = fields.has("suffix") ? fields.string("suffix") : "";
  job.seed = fields.has("seed") ? static_cast<uint64_t>(fields.integer("seed"))
                                : std::stoull(random_hex(8), nullptr, 16) & 0x7fffffff;
  if (fields.has("metadata")) job.metadata = *fields.find("metadata");
  read_hyperparameters(object_in(body, "hyperparameters", "hyperparameters"), "hyperparameters.", job);
  const Json& method = object_in(body, "method", "method");
  const std::string type = method.contains("type") && method["type"].is_string()
                               ? method["type"].get<std::string>()
                               : "supervised";
  if (type != "supervised" && type != "dpo")
    bad_field("method.type", fmt::format("'{:.40}' is not one of ['supervised', 'dpo']", type));
  job.preferences = type == "dpo";
  const std::string of_type = "method." + type;
  read_hyperparameters(
      object_in(object_in(method, type, of_type), "hyperparameters", of_type + ".hyperparameters"),
      of_type + ".hyperparameters.", job);
  if (fields.has("integrations") && !fields.find("integrations")->empty())
    bad_field("integrations", "'integrations': this server has none");
  return job;
}

// "ftjob-…", or "ftjob-…/events".
struct JobPath {
  std::string id, part;
};
JobPath job_path(const HttpRequest& request) {
  const RouteMatch match = find_route(request.method, request.path, Door::kNetwork);
  const std::string text = path_parameter(*match.route, request.path);
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return {text, ""};
  return {text.substr(0, slash), text.substr(slash + 1)};
}

[[noreturn]] void nothing_there(const HttpRequest& request) {
  throw ApiError(404, "invalid_request_error", fmt::format("there is nothing at {:.200}", request.path), {},
                 "unknown_url");
}

}  // namespace

void create_fine_tuning(ServerContext& context, ExchangePtr exchange) {
  FineTuner& tuner = tuner_of(context);
  TuningJob job = job_of(body_of(*exchange));
  job.owner = owner_of(context, *exchange);
  respond_json(*exchange, to_text(tuner.create(std::move(job))));
}

void list_fine_tuning(ServerContext& context, ExchangePtr exchange) {
  const PageQuery page = page_query(exchange->request(), kPageMax);
  respond_json(*exchange,
               to_text(tuner_of(context).list(owner_of(context, *exchange), page.after, page.limit)));
}

void show_fine_tuning(ServerContext& context, ExchangePtr exchange) {
  const FineTuner& tuner = tuner_of(context);
  const uint64_t owner = owner_of(context, *exchange);
  const auto [id, part] = job_path(exchange->request());
  const PageQuery page = page_query(exchange->request(), kPageMax);
  if (part.empty()) return respond_json(*exchange, to_text(tuner.show(owner, id)));
  if (part == "events")
    return respond_json(*exchange, to_text(tuner.events(owner, id, page.after, page.limit)));
  if (part == "checkpoints")
    return respond_json(*exchange, to_text(tuner.checkpoints(owner, id, page.after, page.limit)));
  nothing_there(exchange->request());
}

void change_fine_tuning(ServerContext& context, ExchangePtr exchange) {
  FineTuner& tuner = tuner_of(context);
  const auto [id, part] = job_path(exchange->request());
  if (part != "cancel") nothing_there(exchange->request());
  respond_json(*exchange, to_text(tuner.cancel(owner_of(context, *exchange), id)));
}

void delete_model(ServerContext& context, ExchangePtr exchange) {
  const RouteMatch match = find_route("DELETE", exchange->request().path, Door::kNetwork);
  const std::string name = path_parameter(*match.route, exchange->request().path);
  if (context.fine_tuner == nullptr || !context.fine_tuner->forget_model(owner_of(context, *exchange), name))
    throw ApiError(
        404, "invalid_request_error",
        fmt::format("The model '{:.200}' does not exist, or no fine-tuning job of yours made it", name),
        "model", "model_not_found");
  respond_json(*exchange, to_text({{"id", name}, {"object", "model"}, {"deleted", true}}));
}

}  // namespace butterfly::server
