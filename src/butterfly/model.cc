#include "butterfly/model.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/compute.h"
#include "model/chat_template/chat_prompt.h"
#include "runtime/engine/complete.h"
#include "runtime/engine/local_engine.h"
#include "runtime/layers/loaded_model.h"

namespace butterfly {
namespace {

constexpr size_t kDefaultContext = 4096;
constexpr size_t kTextsAtOnce = 8;

runtime::RequestOptions request_of(const GenerateOptions& options) {
  runtime::RequestOptions request;
  request.tokens_max = options.tokens_max;
  request.stops = options.stops;
  model::SamplerSettings& sampling = request.sampling;
  sampling.temperature = options.temperature;
  sampling.top_k = options.top_k;
  sampling.top_p = options.top_p;
  sampling.min_p = options.min_p;
  sampling.seed = options.seed;
  sampling.check();
  return request;
}

}  // namespace

struct Model::Impl {
  Compute compute;
  std::unique_ptr<runtime::LoadedModel> model;
  std::unique_ptr<runtime::Engine> engine;
  std::unique_ptr<model::ChatPrompter> prompter;

  Impl(const std::string& path, const ModelOptions& options) : compute(options.threads) {
    runtime::LoadOptions load;
    load.context = options.context;
    load.with_predictor = true;
    for (const std::string& text : options.adapters) load.adapters.push_back(model::parse_adapter_spec(text));
    model = runtime::load_model(path, compute.take().pool(), load);
    const size_t context =
        options.context > 0 ? options.context : std::min(model->config.context, kDefaultContext);
    runtime::LocalEngineOptions engine_options;
    engine_options.engine.scheduler.running_max = kTextsAtOnce;
    engine_options.engine.scheduler.context = context;
    engine_options.layers.sequences = kTextsAtOnce;
    // Shared by all texts: without a wish of the caller four of the model's contexts, within 2 GiB.
    engine_options.layers.positions = 2 * options.context;
    engine = runtime::make_local_engine(*model, compute, engine_options);
    if (model->tokenizer)
      prompter = std::make_unique<model::ChatPrompter>(
          *model->tokenizer, model->file.metadata().string_or("tokenizer.chat_template", ""));
  }

  Answer complete(std::vector<int32_t> prompt, const GenerateOptions& options, const OnText& on_text) {
    runtime::EngineRequest request(request_of(options));
    request.prompt = std::move(prompt);
    Answer answer;
    answer.prompt_tokens = request.prompt.size();
    const runtime::Completion done =
        runtime::complete(*engine, std::move(request), [&](std::string_view piece) {
          if (piece.empty()) return true;
          answer.text += piece;
          return !on_text || on_text(std::string(piece));
        });
    answer.finish = runtime::finish_reason_name(done.finish.reason);
    answer.tokens = done.tokens.size();
    answer.first_token_s = seconds_of(done.prompt_time());
    answer.total_s = seconds_of(done.finish.timings.total);
    return answer;
  }
};

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model Model::load(const std::string& path, const ModelOptions& options) {
  return Model(std::make_unique<Impl>(path, options));
}

std::string Model::architecture() const {
  return impl_->model->file.metadata().string_or("general.architecture", "");
}
size_t Model::layers() const { return impl_->model->config.layers; }
size_t Model::context() const { return impl_->engine->context(); }

std::vector<int32_t> Model::tokenize(const std::string& text) const {
  return impl_->model->tokenizer_or_throw().encode(text);
}

std::string Model::detokenize(const std::vector<int32_t>& tokens) const {
  return impl_->model->tokenizer_or_throw().decode(tokens);
}

Answer Model::generate(const std::string& prompt, const GenerateOptions& options, const OnText& on_text) {
  return impl_->complete(tokenize(prompt), options, on_text);
}

Answer Model::chat(const std::vector<Message>& messages, const GenerateOptions& options,
                   const OnText& on_text) {
  impl_->model->tokenizer_or_throw();
  auto list = model::ChatJson::array();
  for (const Message& message : messages)
    list.push_back({{"role", message.role}, {"content", message.content}});
  return impl_->complete(impl_->prompter->prompt({.messages = &list}), options, on_text);
}

}  // namespace butterfly
