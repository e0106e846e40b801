// POST /v1/completions.
#include <nlohmann/json.hpp>

#include "server/generation/pieces.h"
#include "server/generation/read_request.h"
#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

constexpr size_t kPromptsMax = 64;

struct CompletionOptions {
  bool stream = false, include_usage = false, echo = false, logprobs = false;
  std::string fingerprint;
};

class CompletionAnswer final : public Answer {
 public:
  CompletionAnswer(ExchangePtr exchange, Generation generation, CompletionOptions options)
      : Answer(std::move(exchange), std::move(generation), ErrorShape::kOpenAi),
        options_(std::move(options)),
        id_(new_answer_id("cmpl-")) {}

 private:
  void on_begin() override {
    if (!options_.stream) return;
    exchange().begin(sse_head(), std::string(kPing));
    if (!options_.echo) return;
    for (const Choice& choice : choices()) send(choice, prompt_text(choice), nullptr, nullptr);
  }

  void on_delta(Choice& choice, std::string_view text, const std::vector<ToolCall>&,
                const std::vector<runtime::TokenEvent>& tokens) override {
    if (options_.stream)
      send(choice, text, options_.logprobs ? logprobs_of(tokens, choice.text.size() - text.size()) : Json(),
           nullptr);
  }

  void on_choice_end(Choice& choice) override {
    if (options_.stream) send(choice, "", nullptr, choice.finish_reason());
  }

  void on_complete() override {
    if (!options_.stream) return respond_json(exchange(), to_text(whole()));
    end_stream(exchange(), options_.include_usage ? base() : Json(), usage());
  }

  void on_failure(const ApiError& error) override {
    if (!options_.stream) return Answer::on_failure(error);
    fail_stream(exchange(), error);
  }

  std::string prompt_text(const Choice& choice) const {
    return model().tokenizer().decode(generation().prompts[choice.prompt]);
  }

  std::string token_name(int32_t id) const {
    const std::string_view piece = model().tokenizer().piece(id);
    return std::string(piece.empty() ? model().tokenizer().token_text(id) : piece);
  }

  // The old form: lists side by side. `offset`: of the first token in the text.
  Json logprobs_of(const std::vector<runtime::TokenEvent>& tokens, size_t offset,
                   const int32_t* first = nullptr) const {
    Json names = Json::array(), values = Json::array(), tops = Json::array(), offsets = Json::array();
    const auto add = [&](int32_t token, Json value, Json top) {
      const std::string name = token_name(token);
      names.push_back(name);
      values.push_back(std::move(value));
      tops.push_back(std::move(top));
      offsets.push_back(offset);
      offset += name.size();
    };
    if (first != nullptr) add(*first, nullptr, nullptr);  // nothing comes before it
    for (const runtime::TokenEvent& event : tokens) {
      Json top = Json::object();
      for (const runtime::TokenLogprob& other : event.top) top[token_name(other.token)] = other.logprob;
      top[token_name(event.token)] = event.logprob;
      add(event.token, event.logprob, std::move(top));
    }
    return {{"tokens", names}, {"token_logprobs", values}, {"top_logprobs", tops}, {"text_offset", offsets}};
  }

  Json base() const {
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", created_},
            {"model", model().name()},
            {"system_fingerprint", options_.fingerprint}};
  }

  void send(const Choice& choice, std::string_view text, Json logprobs, Json finish_reason) {
    Json chunk = base();
    chunk["choices"] = Json::array({{{"text", text},
                                     {"index", choice.index},
                                     {"logprobs", std::move(logprobs)},
                                     {"finish_reason", std::move(finish_reason)}}});
    if (options_.include_usage) chunk["usage"] = nullptr;
    exchange().write(sse_piece(chunk));
  }

  Json whole() {
    Json list = Json::array();
    for (const Choice& choice : choices()) {
      Json logprobs;
      if (options_.logprobs && options_.echo) {
        std::vector<runtime::TokenEvent> all = choice.prompt_tokens;
        all.insert(all.end(), choice.tokens.begin(), choice.tokens.end());
        logprobs = logprobs_of(all, 0, &generation().prompts[choice.prompt][0]);
      } else if (options_.logprobs) {
        logprobs = logprobs_of(choice.tokens, 0);
      }
      list.push_back({{"text", (options_.echo ? prompt_text(choice) : "") + choice.text},
                      {"index", choice.index},
                      {"logprobs", std::move(logprobs)},
                      {"finish_reason", choice.finish_reason()}});
    }
    Json json = base();
    json["choices"] = std::move(list);
    json["usage"] = usage_json(usage());
    return json;
  }

  const CompletionOptions options_;
  const std::string id_;
};

}  // namespace

void completions(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kCompletionFields);
  Generation generation = new_generation(context, *exchange, fields.string("model"));
  read_sampling(fields, generation);
  generation.prompts =
      read_prompts(*fields.find("prompt"), "prompt", kPromptsMax, generation.model->tokenizer());
  set_rules(fields.string("grammar"), read_response_format(fields.find("response_format"), "response_format"),
            {}, generation);
  CompletionOptions options;
  options.stream = fields.boolean("stream");
  options.echo = fields.boolean("echo");
  options.fingerprint = context.fingerprint;
  if (const auto count = fields.maybe_integer("logprobs")) {
    options.logprobs = generation.request.logprobs = true;
    generation.request.top_logprobs = static_cast<size_t>(*count);
    generation.request.prompt_logprobs = options.echo && !options.stream;
  }
  if (const Json* wanted = fields.find("stream_options")) {
    if (!options.stream) bad_field("stream_options", "needs stream to be true");
    options.include_usage = wanted->value("include_usage", Json(false)) == Json(true);
  }
  std::make_shared<CompletionAnswer>(std::move(exchange), std::move(generation), std::move(options))->start();
}

}  // namespace butterfly::server
