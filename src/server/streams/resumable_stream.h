// A stream of server-sent events that outlives its connection: whoever lost it asks for the rest.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "server/http/exchange.h"

namespace butterfly::server {

// Stands between an answer and its client. Every piece gets a number, which the client sees as the event's id
// ("cmpl-…:12"), and is kept, so that the next client may begin behind any of them. Nothing is sent before
// the journal has the question. When the client goes, the answer goes on; give_up() ends it.
//
// Thread-safe, as every exchange.
class ResumableStream final : public Exchange, public std::enable_shared_from_this<ResumableStream> {
 public:
  // `client`: null, if there is none yet. `request` is what the answer sees.
  // `may_speak`: whether clients may be told anything now; null: always.
  ResumableStream(std::string id, int64_t created, HttpRequest request, ExchangePtr client,
                  std::function<bool()> may_speak = nullptr);
  // Once, after it is owned by a shared pointer.
  void listen_to_client();

  const HttpRequest& request() const override { return request_; }
  HttpRequest& request() override { return request_; }
  const std::string& id() const override { return log_id_; }
  void respond(HttpResponse response) override;
  void begin(HttpResponse head, std::string ping) override;
  void write(std::string piece) override;
  void end() override;
  bool gone() const override;
  void on_gone(std::function<void()> action) override;

  // Instead of end(): it cannot be finished. The last piece has no number: an answer that is made again has
  // something else in its place.
  void fail(std::string piece);

  // Before it is shared: pieces are lines, which clients count; the id is in the head (kStreamIdField).
  void set_lines() { lines_ = true; }
  static constexpr const char* kStreamIdField = "X-Stream-Id";

  const std::string& stream_id() const { return id_; }
  int64_t created() const { return created_; }
  // Of an answer that is made again: what the model read the first time. Empty: it is the first.
  void set_prompt(std::vector<int32_t> prompt) { prompt_ = std::move(prompt); }
  const std::vector<int32_t>& prompt() const { return prompt_; }
  // The question is on disk, or will not be: what has come goes out.
  void release();
  // What was held back because nothing might be said goes out, if it may now.
  void flush();
  // Sends what came or comes behind piece `after` to this client; one who was there before hears no more. An
  // answer that is being made again may not have come so far yet. kNotFound: so old pieces are not kept.
  Status attach(ExchangePtr client, uint64_t after);
  // Nobody wants it any more. The answer is told, as if its client had gone.
  void give_up();

  struct View {
    bool ended = false;                    // all of it is here
    bool sent = false;                     // and was handed to a client
    std::optional<TimePoint> alone_since;  // without a client since then
  };
  View view() const;

  // Kept; then the oldest go. A client that has not had them by then is sent away: what it misses it can only
  // ask for anew.
  static constexpr size_t kBytesMax = 8 << 20;

 private:
  void client_gone(const Exchange* client);
  std::string numbered(uint64_t number, const std::string& piece) const;
  void send_kept();   // with the lock: what the client may have and has not
  void end_client();  // with the lock; it is all there

  const std::string id_;
  const int64_t created_;
  HttpRequest request_;
  const std::string log_id_;
  const std::function<bool()> may_speak_;
  std::vector<int32_t> prompt_;  // before it is shared, and this
  bool lines_ = false;

  mutable std::mutex mutex_;
  ExchangePtr client_;
  std::optional<TimePoint> alone_since_;
  std::optional<HttpResponse> whole_;  // an answer that is no stream
  std::optional<HttpResponse> head_;
  std::string ping_;
  std::deque<std::string> pieces_;
  uint64_t first_ = 1;  // number of the oldest that is kept
  uint64_t sent_ = 0;   // of the last one that the client has
  size_t bytes_ = 0;
  std::string failure_;  // the last piece, if it failed
  bool released_ = false, ended_ = false, handed_over_ = false, given_up_ = false;
  std::function<void()> on_gone_;
};

}  // namespace butterfly::server
