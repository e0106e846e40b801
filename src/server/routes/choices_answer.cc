#include "server/routes/choices_answer.h"

#include <nlohmann/json.hpp>

#include "server/generation/pieces.h"
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

ExchangePtr resumable(ServerContext& context, ExchangePtr exchange, Json body, const StreamOptions& options,
                      const ChoicesForm& form, Generation& generation) {
  // Made again after a restart.
  if (const auto* again = dynamic_cast<const ResumableStream*>(exchange.get())) {
    generation.identity = {again->stream_id(), again->created()};
    if (!again->prompt().empty()) generation.prompts = {again->prompt()};
    return exchange;
  }
  if (context.streams == nullptr || !options.stream || generation.n != 1 || generation.prompts.size() != 1)
    return exchange;
  body["seed"] = generation.request.sampling.seed;
  const int64_t created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  JournalEntry entry{.id = new_answer_id(form.id_prefix),
                     .created = created,
                     .path = exchange->request().path,
                     .body = to_text(body),
                     .prompt = generation.prompts.front(),
                     .owner = std::to_string(generation.request.client)};
  const std::string id = entry.id;
  const auto stream = context.streams->open(exchange, std::move(entry));
  if (stream == nullptr) return exchange;
  generation.identity = {id, created};
  return stream;
}

void start(ServerContext& context, const std::shared_ptr<Answer>& answer, const ExchangePtr& exchange,
           bool again) {
  try {
    answer->start();
  } catch (...) {
    const auto* stream = dynamic_cast<const ResumableStream*>(exchange.get());
    if (stream != nullptr && !again) context.streams->forget(stream->stream_id());
    throw;
  }
}

ChoicesAnswer::ChoicesAnswer(ExchangePtr exchange, Generation generation, const StreamOptions& options,
                             const ChoicesForm& form, std::string fingerprint)
    : Answer(std::move(exchange), std::move(generation), ErrorShape::kOpenAi),
      options_(options),
      form_(form),
      id_(this->generation().identity ? this->generation().identity->id : new_answer_id(form.id_prefix)),
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
  last["usage"] = usage_json(usage());
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
  if (auto* stream = dynamic_cast<ResumableStream*>(&exchange())) return stream->fail(std::move(piece));
  exchange().write(std::move(piece));
  exchange().end();
}

}  // namespace butterfly::server
