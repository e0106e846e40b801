// What clients of llama.cpp's own server ask: GET /props and /slots, POST /apply-template, /completion,
// /infill.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "server/generation/pieces.h"
#include "server/generation/read_request.h"
#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

struct ContinuationForm {
  bool stream = false;
  bool ids = false;            // with the tokens' ids
  bool probabilities = false;  // and those of others
};

// As chat has them, with ids.
Json probabilities_of(const model::Tokenizer& tokenizer, const std::vector<runtime::TokenEvent>& tokens) {
  Json list = chat_logprobs(tokenizer, tokens)["content"];
  for (size_t i = 0; i < list.size(); ++i) {
    list[i]["id"] = tokens[i].token;
    Json& top = list[i]["top_logprobs"];
    for (size_t j = 0; j < top.size(); ++j) top[j]["id"] = tokens[i].top[j].token;
  }
  return list;
}

// The text that goes on, whole or in pieces, with the counts that its clients show.
class ContinuationAnswer final : public Answer {
 public:
  ContinuationAnswer(ExchangePtr exchange, Generation generation, const ContinuationForm& form)
      : Answer(std::move(exchange), std::move(generation), ErrorShape::kOpenAi), form_(form) {}

 private:
  void on_begin() override {
    if (form_.stream) exchange().begin(sse_head(), std::string(kPing));
  }
  void on_delta(Choice& choice, const ParsedText& delta,
                const std::vector<runtime::TokenEvent>& tokens) override {
    if (!form_.stream) return;
    Json piece = {{"index", choice.index}, {"content", delta.text}};
    add_tokens(piece, tokens);
    piece["stop"] = false;
    exchange().write(sse_piece(piece));
  }
  void on_complete() override {
    const Choice& choice = choices()[0];
    const runtime::FinishEvent& f = choice.finish;
    const bool cut = choice.finish_reason() == "length";
    Json last = {{"index", 0}, {"content", form_.stream ? "" : choice.text}};
    add_tokens(last, form_.stream ? std::vector<runtime::TokenEvent>() : choice.tokens);
    last["stop"] = true;
    last["model"] = model().name();
    last["tokens_predicted"] = f.usage.generated_tokens;
    last["tokens_evaluated"] = f.usage.prompt_tokens;
    last["tokens_cached"] = f.usage.cached_tokens;
    last["truncated"] = false;
    last["stop_type"] = cut ? "limit" : f.reason == runtime::FinishReason::kStopString ? "word" : "eos";
    last["stopping_word"] = f.stop;
    last["timings"] = timings(f);
    if (!form_.stream) return respond_json(exchange(), to_text(last));
    exchange().write(sse_piece(last));
    exchange().end();
  }
  void on_failure(const ApiError& error) override {
    if (!form_.stream) return Answer::on_failure(error);
    exchange().write("data: " + error_body(error) + "\n\n");
    exchange().end();
  }

  void add_tokens(Json& piece, const std::vector<runtime::TokenEvent>& tokens) const {
    Json ids = Json::array();
    if (form_.ids)
      for (const runtime::TokenEvent& event : tokens) ids.push_back(event.token);
    piece["tokens"] = std::move(ids);
    if (form_.probabilities)
      piece["completion_probabilities"] = probabilities_of(model().tokenizer(), tokens);
  }

  static Json timings(const runtime::FinishEvent& f) {
    const auto ms = [](Duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
    Json all = Json::object();
    const auto add = [&](const std::string& name, size_t count, double time) {
      all[name + "_n"] = count;
      all[name + "_ms"] = time;
      all[name + "_per_token_ms"] = count > 0 ? time / static_cast<double>(count) : 0;
      all[name + "_per_second"] = time > 0 ? 1e3 * static_cast<double>(count) / time : 0;
    };
    add("prompt", f.usage.prompt_tokens - f.usage.cached_tokens,
        ms(f.timings.first_token - f.timings.queued));
    add("predicted", f.usage.generated_tokens, ms(f.timings.total - f.timings.first_token));
    return all;
  }

  const ContinuationForm form_;
};

Generation continuation(ServerContext& context, const Exchange& exchange, const Fields& fields) {
  Generation generation = new_generation(context, exchange, fields.string("model"));
  read_sampling(fields, generation);
  if (generation.n != 1) bad_field("n", "expected 1");
  if (const auto count = fields.maybe_integer("n_predict"); count && *count >= 0)
    generation.request.tokens_max = static_cast<size_t>(*count);
  set_rules(read_rules(fields, nullptr, ""), {}, generation);
  generation.output = {};  // the text as it is
  generation.request.top_logprobs = static_cast<size_t>(fields.integer("n_probs"));
  generation.request.logprobs = generation.request.top_logprobs > 0 || fields.boolean("return_tokens");
  return generation;
}

// To be called once the prompt is there.
void start_continuation(ExchangePtr exchange, Generation generation, const Fields& fields) {
  const ContinuationForm form = {.stream = fields.boolean("stream"),
                                 .ids = fields.boolean("return_tokens"),
                                 .probabilities = generation.request.top_logprobs > 0};
  std::make_shared<ContinuationAnswer>(std::move(exchange), std::move(generation), form)->start();
}

// The control tokens between which a model fills in, by the names that files and vocabularies have for them.
int32_t fill_token(const ServedModel& model, const char* key, std::initializer_list<const char*> names) {
  const auto& metadata = model.loaded().file.metadata();
  const std::string place = fmt::format("tokenizer.ggml.{}_token_id", key);
  if (metadata.has(place))
    if (const uint64_t id = metadata.u64(place); id < model.tokenizer().vocab_size())
      return static_cast<int32_t>(id);
  for (const char* name : names)
    if (const auto id = model.tokenizer().find_token(name)) return *id;
  throw ApiError(
      501, "invalid_request_error",
      fmt::format("the model '{}' has no tokens to fill in with ({}); use one that was trained for it",
                  model.name(), key),
      "model", "unsupported_model");
}

}  // namespace

void llama_props(ServerContext& context, ExchangePtr exchange) {
  const std::vector<ModelInfo> list = context.models->list();
  const ModelInfo& info = list.front();
  Json props = {
      {"default_generation_settings", {{"n_ctx", 0}, {"params", {{"n_predict", -1}, {"seed", -1}}}}},
      {"total_slots", context.settings.parallel},
      {"model_alias", info.spec.name},
      {"model_path", info.spec.path.filename().string()},
      {"chat_template", ""},
      {"modalities", {{"vision", false}, {"audio", false}}},
      {"build_info", context.fingerprint}};
  if (info.model != nullptr) {
    props["default_generation_settings"]["n_ctx"] = info.model->engine().context();
    props["chat_template"] = info.model->prompter().source();
  }
  respond_json(*exchange, to_text(props));
}

// How many are at work; whose texts they are is nobody's business.
void llama_slots(ServerContext& context, ExchangePtr exchange) {
  const std::vector<ModelInfo> list = context.models->list();
  const ModelPtr& model = list.front().model;
  const size_t running = model != nullptr ? model->engine().stats().running : 0;
  Json slots = Json::array();
  for (size_t i = 0; i < context.settings.parallel; ++i)
    slots.push_back({{"id", i},
                     {"n_ctx", model != nullptr ? model->engine().context() : 0},
                     {"is_processing", i < running}});
  respond_json(*exchange, to_text(slots));
}

void llama_apply_template(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kTemplateFields);
  const ModelPtr model = context.models->ready(fields.string("model"), owner_of(context, *exchange));
  const ToolRequest tools = read_tools(fields.find("tools"), nullptr, true);
  model::ChatRequest conversation;
  conversation.messages = fields.find("messages");
  conversation.tools = tools.tools;
  conversation.extra = fields.find("chat_template_kwargs");
  conversation.add_generation_prompt = fields.boolean("add_generation_prompt");
  try {
    respond_json(*exchange, to_text({{"prompt", render_chat(model->prompter(), conversation).text}}));
  } catch (const model::ChatInputError& error) {
    throw ApiError(400, "invalid_request_error", error.what(), error.field, error.code);
  }
}

void llama_completion(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kLlamaCompletionFields);
  Generation generation = continuation(context, *exchange, fields);
  generation.prompts = read_prompts(*fields.find("prompt"), "prompt", 1, generation.model->tokenizer(),
                                    fields.boolean("parse_special"));
  start_continuation(std::move(exchange), std::move(generation), fields);
}

// Prefix, suffix, middle: the order that models of this kind were trained on. Files around it come first, as
// plain text.
void llama_infill(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kInfillFields);
  Generation generation = continuation(context, *exchange, fields);
  const ServedModel& model = *generation.model;
  const model::Tokenizer& tokenizer = model.tokenizer();
  std::vector<int32_t> prompt;
  if (tokenizer.adds_bos() && tokenizer.bos()) prompt.push_back(*tokenizer.bos());
  const auto add_text = [&](const std::string& text) {
    const auto ids =
        tokenizer.encode(text, {.add_bos = false, .add_eos = false, .parse_special = false, .plain = {}});
    prompt.insert(prompt.end(), ids.begin(), ids.end());
  };
  if (const Json* files = fields.find("input_extra"))
    for (const Json& file : *files)
      if (file.is_object() && file.contains("text") && file["text"].is_string())
        add_text(file["text"].get<std::string>() + "\n");
  prompt.push_back(fill_token(model, "fim_pre", {"<|fim_prefix|>", "<fim_prefix>", "<PRE>", "▁<PRE>"}));
  add_text(fields.string("input_prefix"));
  prompt.push_back(fill_token(model, "fim_suf", {"<|fim_suffix|>", "<fim_suffix>", "<SUF>", "▁<SUF>"}));
  add_text(fields.string("input_suffix"));
  prompt.push_back(fill_token(model, "fim_mid", {"<|fim_middle|>", "<fim_middle>", "<MID>", "▁<MID>"}));
  add_text(fields.string("prompt"));
  generation.prompts.push_back(std::move(prompt));
  start_continuation(std::move(exchange), std::move(generation), fields);
}

}  // namespace butterfly::server
