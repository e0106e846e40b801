#include "server/routes/resumable_answer.h"

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/sha256.h"
#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

constexpr size_t kIdDigits = 24;

}  // namespace

ExchangePtr resumable(ServerContext& context, ExchangePtr exchange, const Json& body,
                      const ResumableForm& form, Generation& generation) {
  // Made again after a restart.
  if (const auto* again = dynamic_cast<const ResumableStream*>(exchange.get())) {
    generation.identity = {again->stream_id(), again->created()};
    if (!again->prompt().empty()) generation.prompts = {again->prompt()};
    return exchange;
  }
  if (context.streams == nullptr || !form.stream || generation.n != 1 || generation.prompts.size() != 1)
    return exchange;
  const int64_t created = unix_seconds();
  JournalEntry entry{.id = new_answer_id(form.id_prefix),
                     .created = created,
                     .path = exchange->request().path,
                     .body = to_text(body),
                     .prompt = generation.prompts.front(),
                     .owner = std::to_string(generation.request.client),
                     .lines = form.lines};
  const std::string id = entry.id;
  const auto stream = context.streams->open(exchange, std::move(entry));
  if (stream == nullptr) return exchange;
  generation.identity = {id, created};
  return stream;
}

void start(ServerContext& context, const std::shared_ptr<Answer>& answer, const ExchangePtr& back,
           const ExchangePtr& exchange) {
  try {
    answer->start();
  } catch (...) {
    const auto* stream = dynamic_cast<const ResumableStream*>(back.get());
    if (stream != nullptr && back != exchange) context.streams->forget(stream->stream_id());
    throw;
  }
}

void end_failed(Exchange& exchange, std::string piece) {
  if (auto* stream = dynamic_cast<ResumableStream*>(&exchange)) return stream->fail(std::move(piece));
  exchange.write(std::move(piece));
  exchange.end();
}

std::string answer_id(const Generation& generation, std::string_view prefix) {
  return generation.identity ? generation.identity->id : new_answer_id(prefix);
}

std::string part_id(const Generation& generation, std::string_view prefix) {
  if (!generation.identity) return new_answer_id(prefix);
  const std::string text = generation.identity->id + ":" + std::string(prefix);
  return std::string(prefix) + sha256_hex(text).substr(0, kIdDigits);
}

}  // namespace butterfly::server
