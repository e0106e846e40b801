#include "server/fine_tuning/tuning_job.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/secret.h"
#include "server/fine_tuning/file_store.h"

namespace butterfly::server {
namespace {

constexpr std::string_view kStatusNames[] = {"validating_files", "queued", "running",
                                             "succeeded",        "failed", "cancelled"};

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }
Json or_null(int64_t time) { return time == 0 ? Json() : Json(time); }

// What is not chosen yet is "auto", as clients write it.
template <typename T>
Json chosen_or_auto(const TuningJob& job, const std::optional<T>& asked, T used) {
  if (job.chosen) return used;
  return asked ? Json(*asked) : Json("auto");
}

Json hyperparameters(const TuningJob& job) {
  Json json = {
      {"n_epochs", chosen_or_auto(job, job.epochs, job.used_epochs)},
      {"batch_size", chosen_or_auto(job, job.batch_size, job.used_batch_size)},
      {"learning_rate_multiplier", chosen_or_auto(job, job.rate_multiplier, job.used_rate_multiplier)}};
  // Epochs are whole numbers for nearly everybody.
  if (json["n_epochs"].is_number() &&
      json["n_epochs"] == static_cast<int64_t>(json["n_epochs"].get<double>()))
    json["n_epochs"] = static_cast<int64_t>(json["n_epochs"].get<double>());
  return json;
}

Json method_object(const TuningJob& job) {
  Json of_method = hyperparameters(job);
  if (job.preferences) of_method["beta"] = job.beta;
  const std::string name = job.preferences ? "dpo" : "supervised";
  return {{"type", name}, {name, {{"hyperparameters", std::move(of_method)}}}};
}

template <typename T>
Json maybe(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
template <typename T>
std::optional<T> maybe_of(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional<T>(json.get<T>());
}

}  // namespace

std::string_view tuning_status_name(TuningStatus status) { return kStatusNames[static_cast<size_t>(status)]; }

void TuningJob::tell(std::string level, std::string message, Json data) {
  if (events.size() == kEventsMax) events.erase(events.begin() + kEventsMax / 2);
  events.push_back({.id = "ftevent-" + random_hex(24),
                    .created_at = unix_seconds(),
                    .level = std::move(level),
                    .message = std::move(message),
                    .data = std::move(data)});
}

Json job_object(const TuningJob& job) {
  Json error;
  if (!job.error_message.empty())
    error = {{"code", job.error_code}, {"message", job.error_message}, {"param", or_null(job.error_param)}};
  return {{"object", "fine_tuning.job"},
          {"id", job.id},
          {"model", job.model},
          {"created_at", job.created_at},
          {"finished_at", or_null(job.finished_at)},
          {"fine_tuned_model", or_null(job.fine_tuned_model)},
          {"organization_id", "butterfly"},
          {"result_files", Json::array()},
          {"status", tuning_status_name(job.status)},
          {"validation_file", or_null(job.validation_file)},
          {"training_file", job.training_file},
          {"hyperparameters", hyperparameters(job)},
          {"trained_tokens", is_over(job.status) ? Json(job.trained_tokens) : Json()},
          {"error", std::move(error)},
          {"user_provided_suffix", or_null(job.suffix)},
          {"seed", job.seed},
          {"estimated_finish", or_null(job.estimated_finish)},
          {"integrations", Json::array()},
          {"method", method_object(job)},
          {"metadata", job.metadata}};
}

Json event_object(const TuningEvent& event) {
  return {{"object", "fine_tuning.job.event"},
          {"id", event.id},
          {"created_at", event.created_at},
          {"level", event.level},
          {"message", event.message},
          {"data", event.data.is_null() ? Json::object() : event.data},
          {"type", event.data.is_null() ? "message" : "metrics"}};
}

Json checkpoint_object(const TuningCheckpoint& checkpoint, const std::string& job) {
  return {{"object", "fine_tuning.job.checkpoint"},
          {"id", checkpoint.id},
          {"created_at", checkpoint.created_at},
          {"fine_tuned_model_checkpoint", checkpoint.model},
          {"fine_tuning_job_id", job},
          {"metrics", checkpoint.metrics},
          {"step_number", checkpoint.step}};
}

std::string save_job(const TuningJob& job) {
  Json events = Json::array(), checkpoints = Json::array();
  for (const TuningEvent& event : job.events)
    events.push_back({event.id, event.created_at, event.level, event.message, event.data});
  for (const TuningCheckpoint& c : job.checkpoints)
    checkpoints.push_back({c.id, c.created_at, c.step, c.model, c.metrics});
  return json_text(Json{{"id", job.id},
                        {"owner", job.owner},
                        {"model", job.model},
                        {"training_file", job.training_file},
                        {"validation_file", job.validation_file},
                        {"suffix", job.suffix},
                        {"seed", job.seed},
                        {"preferences", job.preferences},
                        {"beta", job.beta},
                        {"epochs", maybe(job.epochs)},
                        {"rate_multiplier", maybe(job.rate_multiplier)},
                        {"batch_size", maybe(job.batch_size)},
                        {"metadata", job.metadata},
                        {"status", tuning_status_name(job.status)},
                        {"created_at", job.created_at},
                        {"finished_at", job.finished_at},
                        {"error", {job.error_code, job.error_message, job.error_param}},
                        {"fine_tuned_model", job.fine_tuned_model},
                        {"trained_tokens", job.trained_tokens},
                        {"chosen", job.chosen},
                        {"used", {job.used_epochs, job.used_rate_multiplier, job.used_batch_size}},
                        {"events", std::move(events)},
                        {"checkpoints", std::move(checkpoints)}});
}

TuningJob read_job(const std::string& text) {
  const Json json = json_of_text<Json>(text);
  TuningJob job;
  job.id = json.at("id");
  job.owner = json.at("owner");
  job.model = json.at("model");
  job.training_file = json.at("training_file");
  job.validation_file = json.at("validation_file");
  job.suffix = json.at("suffix");
  job.seed = json.at("seed");
  job.preferences = json.at("preferences");
  job.beta = json.at("beta");
  job.epochs = maybe_of<double>(json.at("epochs"));
  job.rate_multiplier = maybe_of<double>(json.at("rate_multiplier"));
  job.batch_size = maybe_of<uint64_t>(json.at("batch_size"));
  job.metadata = json.at("metadata");
  const auto* status = std::ranges::find(kStatusNames, json.at("status").get<std::string>());
  if (status == std::end(kStatusNames)) fail(Errc::kCorrupt, "no such status");
  job.status = static_cast<TuningStatus>(status - kStatusNames);
  job.created_at = json.at("created_at");
  job.finished_at = json.at("finished_at");
  job.error_code = json.at("error").at(0);
  job.error_message = json.at("error").at(1);
  job.error_param = json.at("error").at(2);
  job.fine_tuned_model = json.at("fine_tuned_model");
  job.trained_tokens = json.at("trained_tokens");
  job.chosen = json.at("chosen");
  job.used_epochs = json.at("used").at(0);
  job.used_rate_multiplier = json.at("used").at(1);
  job.used_batch_size = json.at("used").at(2);
  for (const Json& row : json.at("events"))
    job.events.push_back({row.at(0), row.at(1), row.at(2), row.at(3), row.at(4)});
  for (const Json& row : json.at("checkpoints"))
    job.checkpoints.push_back({row.at(0), row.at(1), row.at(2), row.at(3), row.at(4)});
  return job;
}

}  // namespace butterfly::server
