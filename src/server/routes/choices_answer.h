// What the answers of /v1/chat/completions and /v1/completions share: a list of choices, whole or as a stream
// of chunks.
#pragma once
#include <string>

#include "server/api/fields.h"
#include "server/context/server_context.h"
#include "server/generation/answer.h"

namespace butterfly::server {

struct StreamOptions {
  bool stream = false;
  bool include_usage = false;
  bool progress = false;  // of long prompts
};
// Of "stream", "stream_options" and "return_progress".
StreamOptions read_stream_options(const Fields& fields);

// Names of one form of answers.
struct ChoicesForm {
  std::string_view id_prefix, object, chunk_object;
};

// Derived classes say what a choice looks like. Threads as for Answer.
class ChoicesAnswer : public Answer {
 protected:
  ChoicesAnswer(ExchangePtr exchange, Generation generation, const StreamOptions& options,
                const ChoicesForm& form, std::string fingerprint);

  virtual void on_stream_begin() {}  // its first chunks
  virtual Json whole_choice(const Choice&) const = 0;

  bool streams() const { return options_.stream; }
  // A chunk with these keys of one choice; the others are added.
  void send(const Choice& choice, Json keys, Json logprobs, Json finish_reason);

 private:
  void on_begin() final;
  void on_progress(Choice& choice, size_t read, size_t prompt) final;
  void on_complete() final;
  void on_failure(const ApiError& error) final;
  Json base(std::string_view object) const;

  const StreamOptions options_;
  const ChoicesForm form_;
  const std::string id_, fingerprint_;
};

}  // namespace butterfly::server
