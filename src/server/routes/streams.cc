// GET /v1/streams: the rest of a stream whose connection was lost, also by a restart of the server.
#include <fmt/format.h>

#include <charconv>

#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

// "cmpl-…:12", as the ids of events are.
struct StreamPlace {
  std::string id;
  uint64_t after = 0;
};

StreamPlace stream_place_of(const HttpRequest& request) {
  std::string text;
  if (const std::string* last = request.field("last-event-id")) {
    text = *last;
  } else if (constexpr std::string_view kName = "after="; request.query.starts_with(kName)) {
    if (!percent_decode(request.query.substr(kName.size()), text)) text.clear();
  }
  const size_t colon = text.rfind(':');
  StreamPlace place{.id = text.substr(0, colon)};
  const bool number =
      colon != std::string::npos &&
      std::from_chars(text.data() + colon + 1, text.data() + text.size(), place.after).ec == std::errc();
  if (place.id.empty() || !number)
    throw ApiError(400, "invalid_request_error",
                   "which stream, and behind which event? Expected the id of its last event, such as "
                   "'cmpl-…:12', in the field Last-Event-ID or as ?after=; ':0' for all of it");
  return place;
}

}  // namespace

void resume_stream(ServerContext& context, ExchangePtr exchange) {
  if (context.streams == nullptr)
    throw ApiError(404, "invalid_request_error",
                   "this server keeps no streams: start it with --journal FILE");
  const StreamPlace place = stream_place_of(exchange->request());
  uint64_t owner = 0;
  context.access.check_key(exchange->request(), &owner);
  const Status status = context.streams->attach(place.id, std::to_string(owner), exchange, place.after);
  if (!status) throw api_error_of(status.code(), status.text());
}

}  // namespace butterfly::server
