#include "server/routes/choices_answer.h"

#include <nlohmann/json.hpp>

#include "server/generation/pieces.h"
#include "server/routes/resumable_answer.h"
#include "server/routes/routes.h"

namespace butterfly::server {

StreamOptions read_stream_options(const Fields& fields) {
  StreamOptions options;
  options.stream = fields.boolean("stream");
  if (const Json* wanted = fields.find("stream_options")) {
    if (!options.stream) bad_field("stream_options", "needs stream to be true");
    options.include_usage = wanted->value("include_usage", Json(false)) == Json(true);
  }
  options.progress = fields.boolean("return_progress");
  return options;
}

ChoicesAnswer::ChoicesAnswer(ExchangePtr exchange, Generation generation, const StreamOptions& options,
                             const ChoicesForm& form, std::string fingerprint)
    : Answer(std::move(exchange), std::move(generation), ErrorShape::kOpenAi),
      options_(options),
      form_(form),
      id_(answer_id(this->generation(), form.id_prefix)),
      fingerprint_(std::move(fingerprint)) {}

Json ChoicesAnswer::base(std::string_view object) const {
  return {{"id", id_},
          {"object", object},
          {"created", created_},
          {"model", model().name()},
          {"system_fingerprint", fingerprint_}};
}

void ChoicesAnswer::on_begin() {
  if (!options_.stream) return;
  exchange().begin(sse_head(), std::string(kPing));
  on_stream_begin();
}

// A piece without choices. Streams that can be taken up again have only what is the same whenever they are
// made.
void ChoicesAnswer::on_progress(Choice& choice, size_t read, size_t prompt) {
  if (!options_.stream || !options_.progress || generation().identity) return;
  Json chunk = base(form_.chunk_object);
  chunk["choices"] = Json::array();
  chunk["prompt_progress"] = {{"index", choice.index}, {"processed", read}, {"total", prompt}};
  exchange().write(sse_piece(chunk));
}

void ChoicesAnswer::send(const Choice& choice, Json keys, Json logprobs, Json finish_reason) {
  keys["index"] = choice.index;
  keys["logprobs"] = std::move(logprobs);
  keys["finish_reason"] = std::move(finish_reason);
  Json chunk = base(form_.chunk_object);
  chunk["choices"].push_back(std::move(keys));
  if (options_.include_usage) chunk["usage"] = nullptr;
  exchange().write(sse_piece(chunk));
}

void ChoicesAnswer::on_complete() {
  Json last = base(options_.stream ? form_.chunk_object : form_.object);
  last["choices"] = Json::array();
  last["usage"] = usage_json(usage(), reasoning_tokens());
  if (!options_.stream) {
    for (const Choice& choice : choices()) last["choices"].push_back(whole_choice(choice));
    return respond_json(exchange(), to_text(last));
  }
  if (options_.include_usage) exchange().write(sse_piece(last));
  exchange().write("data: [DONE]\n\n");
  exchange().end();
}

void ChoicesAnswer::on_failure(const ApiError& error) {
  if (!options_.stream) return Answer::on_failure(error);
  std::string piece = "data: " + error_body(error) + "\n\n";
  end_failed(exchange(), std::move(piece));
}

}  // namespace butterfly::server
