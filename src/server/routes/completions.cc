// POST /v1/completions.
#include <nlohmann/json.hpp>

#include "server/generation/pieces.h"
#include "server/generation/read_request.h"
#include "server/routes/choices_answer.h"
#include "server/routes/resumable_answer.h"
#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

constexpr size_t kPromptsMax = 64;

constexpr ChoicesForm kForm = {"cmpl-", "text_completion", "text_completion"};

class CompletionAnswer final : public ChoicesAnswer {
 public:
  CompletionAnswer(ExchangePtr exchange, Generation generation, const StreamOptions& options,
                   std::string fingerprint, bool echo)
      : ChoicesAnswer(std::move(exchange), std::move(generation), options, kForm, std::move(fingerprint)),
        echo_(echo) {}

 private:
  void on_stream_begin() override {
    if (!echo_) return;
    for (const Choice& choice : choices()) send(choice, {{"text", prompt_text(choice)}}, nullptr, nullptr);
  }

  void on_delta(Choice& choice, const ParsedText& delta,
                const std::vector<runtime::TokenEvent>& tokens) override {
    if (streams())
      send(choice, {{"text", delta.text}},
           logprobs() ? logprobs_of(tokens, choice.text.size() - delta.text.size()) : Json(), nullptr);
  }

  void on_choice_end(Choice& choice) override {
    if (streams()) send(choice, {{"text", ""}}, nullptr, choice.finish_reason());
  }

  bool logprobs() const { return generation().request.logprobs; }

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

  Json whole_choice(const Choice& choice) const override {
    Json values;
    if (logprobs() && echo_) {
      std::vector<runtime::TokenEvent> all = choice.prompt_tokens;
      all.insert(all.end(), choice.tokens.begin(), choice.tokens.end());
      values = logprobs_of(all, 0, &generation().prompts[choice.prompt][0]);
    } else if (logprobs()) {
      values = logprobs_of(choice.tokens, 0);
    }
    return {{"text", (echo_ ? prompt_text(choice) : "") + choice.text},
            {"index", choice.index},
            {"logprobs", std::move(values)},
            {"finish_reason", choice.finish_reason()}};
  }

  const bool echo_;
};

}  // namespace

void completions(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kCompletionFields);
  Generation generation = new_generation(context, *exchange, fields.string("model"));
  read_sampling(fields, generation);
  generation.prompts = read_prompts(*fields.find("prompt"), "prompt", kPromptsMax,
                                    generation.model->tokenizer(), fields.boolean("parse_special"));
  set_rules(read_rules(fields, fields.find("response_format"), "response_format"), {}, generation);
  const StreamOptions options = read_stream_options(fields);
  const bool echo = fields.boolean("echo");
  if (const auto count = fields.maybe_integer("logprobs")) {
    generation.request.logprobs = true;
    generation.request.top_logprobs = static_cast<size_t>(*count);
    generation.request.prompt_logprobs = echo && !options.stream;
  }
  Json again = body;
  again["seed"] = generation.request.sampling.seed;
  const ExchangePtr back = resumable(context, exchange, again,
                                     {.id_prefix = kForm.id_prefix, .stream = options.stream}, generation);
  start(context,
        std::make_shared<CompletionAnswer>(back, std::move(generation), options, context.fingerprint, echo),
        back, exchange);
}

}  // namespace butterfly::server
