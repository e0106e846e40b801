#include "server/models/model_specs.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "model/adapter/adapter.h"
#include "server/models/schema_folder.h"

namespace butterfly::server {
namespace {

struct NamedFile {
  std::string name, file;
};

NamedFile split(const std::string& text) {
  const size_t equals = text.find('=');
  // A path may have '=' in it; a name has no '/' before it.
  if (equals != std::string::npos && text.find('/') > equals)
    return {text.substr(0, equals), text.substr(equals + 1)};
  return {"", text};
}

std::string name_of(const std::filesystem::path& path) {
  std::filesystem::path last = path.filename().empty() ? path.parent_path().filename() : path.filename();
  const std::string ending = last.extension().string();
  return ending == ".gguf" || ending == ".bin" || ending == ".safetensors" ? last.stem().string()
                                                                           : last.string();
}

void check_name(const std::string& name) {
  const bool plain =
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return c > ' ' && c != 127 && c != '"'; });
  if (name.empty() || name.size() > 200 || !plain)
    fail(Errc::kInvalidArgument,
         "'{}' cannot be the name of a model: expected up to 200 characters without blanks", name);
}

}  // namespace

ModelSpec model_spec(const Settings& settings, const std::string& text,
                     const std::function<std::filesystem::path(const std::string&)>& resolve) {
  const auto [name, file] = split(text);
  ModelSpec spec;
  spec.path = resolve(file);
  spec.name = !name.empty() ? name : name_of(file);
  spec.tokenizer = settings.tokenizer;
  check_name(spec.name);
  return spec;
}

std::vector<ModelSpec> model_specs(const Settings& settings,
                                   const std::function<std::filesystem::path(const std::string&)>& resolve) {
  if (settings.models.empty()) fail(Errc::kInvalidArgument, "no model to serve: give one with -m FILE");
  std::vector<ModelSpec> specs;
  for (const std::string& text : settings.models) specs.push_back(model_spec(settings, text, resolve));
  const ModelSpec base = specs.front();
  for (const std::string& text : settings.lora) {
    const auto [name, file] = split(text);
    ModelSpec spec = base;
    spec.adapters.push_back(model::parse_adapter_spec(file));
    spec.name = !name.empty() ? name : name_of(spec.adapters.back().path);
    spec.parent = base.name;
    check_name(spec.name);
    specs.push_back(std::move(spec));
  }
  return specs;
}

ModelOptions model_options(const Settings& settings) {
  const auto type = dtype_by_name(settings.cache_type);
  if (!type || (*type != DType::kF16 && *type != DType::kF32 && *type != DType::kQ8_0))
    fail(Errc::kInvalidArgument, "--cache-type {}: expected f16, f32 or q8_0", settings.cache_type);
  ModelOptions options;
  options.run.layers = {.positions = settings.cache_positions, .kv_type = *type, .rows_max = settings.batch};
  runtime::SchedulerOptions& scheduler = options.run.engine.scheduler;
  scheduler.context = settings.context;
  scheduler.running_max = settings.parallel;
  // Whoever is taken waits for about as long as an answer takes at full load; others are told at once, while
  // they can still go elsewhere. Fewer would refuse some of the first who come together to an idle server.
  scheduler.waiting_max = settings.queue > 0 ? settings.queue : settings.parallel;
  scheduler.waiting_tokens_max = settings.queue_tokens;
  scheduler.reuse_prefix = !settings.no_prefix_reuse;
  scheduler.share_prefixes = settings.share_prefixes;
  scheduler.speculate = !settings.no_speculation;
  scheduler.predict_always = runtime::parse_predict(settings.predict);
  options.access = settings.no_mmap ? FileAccess::kRead : FileAccess::kMap;
  options.load_threads = settings.threads;
  options.prefix_folder = settings.keep_prefixes;
  options.prefix_bytes_max = parse_bytes(settings.keep_prefixes_bytes).or_throw();
  if (!settings.schemas.empty()) options.schemas = read_schema_folder(settings.schemas);
  return options;
}

}  // namespace butterfly::server
