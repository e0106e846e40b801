// Answers that can be taken up again (server/streams): what the routes of all interfaces share.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "server/api/json.h"
#include "server/context/server_context.h"
#include "server/generation/answer.h"

namespace butterfly::server {

struct ResumableForm {
  std::string_view id_prefix;  // of the answer's id
  bool stream = false;         // asked for one; others are not taken up
  // Pieces are lines of their own and have no place for numbers: the head has the id, clients count lines.
  bool lines = false;
};

// The way back for a stream: one that can be taken up again, where the server keeps a journal and the request
// is for one text. Sets what makes it the same when it is asked for again; `body` is the request, with the
// seed that was chosen.
ExchangePtr resumable(ServerContext& context, ExchangePtr exchange, const Json& body,
                      const ResumableForm& form, Generation& generation);

// Starts it. One that the engine refuses is no stream to be taken up: its client hears so. `exchange`: as the
// route got it.
void start(ServerContext& context, const std::shared_ptr<Answer>& answer, const ExchangePtr& back,
           const ExchangePtr& exchange);

// The last piece of a stream that cannot be finished.
void end_failed(Exchange& exchange, std::string piece);

// The id of this answer, or a new one.
std::string answer_id(const Generation& generation, std::string_view prefix);
// Of a part of it, such as "msg_…": the same when it is made again.
std::string part_id(const Generation& generation, std::string_view prefix);

}  // namespace butterfly::server
