// What Ollama's clients ask about the server and its models: GET /, /api/version, /api/tags, /api/ps; POST
// /api/show.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "server/api/fields.h"
#include "server/generation/pieces.h"
#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

// Of the interface that is spoken. Clients refuse servers whose number is below that of the Ollama they were
// made for: VS Code's asks for 0.6.4, Codex (--oss) for 0.13.4.
constexpr std::string_view kOllamaVersion = "0.14.0";

std::string modified(const ModelSpec& spec) {
  std::error_code failed;
  const auto time = std::filesystem::last_write_time(spec.path, failed);
  if (failed) return rfc3339({});
  return rfc3339(std::chrono::time_point_cast<std::chrono::system_clock::duration>(
      std::chrono::file_clock::to_sys(time)));
}

uint64_t file_bytes(const ModelSpec& spec) {
  std::error_code failed;
  const uint64_t bytes = std::filesystem::file_size(spec.path, failed);
  return failed ? 0 : bytes;
}

// Clients show it and compare it: a function of name, path and size stands in for the hash of gigabytes.
std::string digest_of(const ModelSpec& spec) {
  uint64_t hash = 0xcbf29ce484222325u;
  std::string digest;
  const std::string text = fmt::format("{}\n{}\n{}", spec.name, spec.path.string(), file_bytes(spec));
  for (int part = 0; part < 4; ++part) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    digest += fmt::format("{:016x}", hash);
  }
  return digest;
}

Json details_of(const ModelInfo& info) {
  Json details = {{"parent_model", info.spec.parent}, {"format", "gguf"},     {"family", ""},
                  {"families", Json::array()},        {"parameter_size", ""}, {"quantization_level", ""}};
  if (info.model == nullptr) return details;
  const model::ModelFile& file = info.model->loaded().file;
  const auto shares = file.type_shares();
  details["format"] = file.format().substr(0, file.format().find(' '));
  details["family"] = file.architecture();
  details["families"] = Json::array({file.architecture()});
  details["parameter_size"] = format_count(file.parameter_count());
  details["quantization_level"] = shares.empty() ? "" : shares.front().type;
  return details;
}

Json row_of(const ModelInfo& info) {
  return {{"name", info.spec.name},
          {"model", info.spec.name},
          {"size", file_bytes(info.spec)},
          {"digest", digest_of(info.spec)},
          {"details", details_of(info)}};
}

}  // namespace

void ollama_version(ServerContext& context, ExchangePtr exchange) {
  respond_json(*exchange, to_text({{"version", kOllamaVersion}, {"butterfly", context.version}}));
}

void ollama_tags(ServerContext& context, ExchangePtr exchange) {
  Json rows = Json::array();
  for (const ModelInfo& info : context.models->list(owner_of(context, *exchange))) {
    Json row = row_of(info);
    row["modified_at"] = modified(info.spec);
    rows.push_back(std::move(row));
  }
  respond_json(*exchange, to_text({{"models", std::move(rows)}}));
}

void ollama_ps(ServerContext& context, ExchangePtr exchange) {
  Json rows = Json::array();
  for (const ModelInfo& info : context.models->list(owner_of(context, *exchange))) {
    if (info.model == nullptr) continue;
    Json row = row_of(info);
    row["size"] = info.bytes;
    row["size_vram"] = 0;
    row["expires_at"] = "9999-12-31T23:59:59Z";  // it stays until memory is needed
    row["context_length"] = info.model->engine().context();
    rows.push_back(std::move(row));
  }
  respond_json(*exchange, to_text({{"models", std::move(rows)}}));
}

void ollama_show(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kOllamaShowFields);
  const std::string name = fields.has("model") ? fields.string("model") : fields.string("name");
  const ModelPtr model = context.models->ready(name, owner_of(context, *exchange));
  ModelInfo info;
  info.spec = model->spec();
  info.model = model;
  Json capabilities = Json::array({"completion", "embedding"});
  if (model->prompter().own_template()) capabilities.push_back("tools");
  if (model->reasoning_marks() != nullptr || model->family().reasons_itself)
    capabilities.push_back("thinking");
  Json facts = Json::object();
  // Vocabularies have a hundred thousand entries: clients want the numbers.
  for (const model::Metadata::Entry& entry : model->loaded().file.metadata().entries()) {
    if (std::holds_alternative<model::MetaArray>(entry.value)) continue;
    std::visit(
        [&](const auto& value) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(value)>, model::MetaArray>)
            facts[entry.key] = value;
        },
        entry.value);
  }
  respond_json(*exchange, to_text({{"modelfile", "FROM " + info.spec.name + "\n"},
                                   {"parameters", ""},
                                   {"template", model->prompter().source()},
                                   {"details", details_of(info)},
                                   {"model_info", std::move(facts)},
                                   {"capabilities", std::move(capabilities)},
                                   {"modified_at", modified(info.spec)}}));
}

// Clients pull before they ask. What is here is here; nothing is fetched for anybody.
void ollama_pull(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kOllamaNameFields);
  const std::string name = fields.has("model") ? fields.string("model") : fields.string("name");
  if (name.empty() || !context.models->has(name, owner_of(context, *exchange)))
    throw ApiError(
        404, "invalid_request_error",
        fmt::format("the model '{:.200}' is not here, and this server fetches none: start it with -m FILE",
                    name),
        "model", "model_not_found");
  if (!fields.boolean("stream")) return respond_json(*exchange, to_text({{"status", "success"}}));
  exchange->begin(ndjson_head(), "");
  exchange->write(to_text({{"status", "success"}}) + "\n");
  exchange->end();
}

void ollama_no_store(ServerContext&, ExchangePtr exchange) {
  throw ApiError(
      501, "invalid_request_error",
      fmt::format("{} is not for clients here: the models are those the server was started with (-m)",
                  exchange->request().path));
}

}  // namespace butterfly::server
