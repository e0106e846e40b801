// A connection that has not proved itself: handshake, and for nodes that want to join one question and one
// answer.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "cluster/transport/tcp.h"
#include "cluster/transport/tls_channel.h"

namespace butterfly::cluster {

// A connection that came in and has not yet proved whose it is. Never blocks: advance() does what can be done
// now. Of the listener's thread.
class HalfOpen {
 public:
  enum class Outcome {
    kGoesOn,    // waits for its socket: events()
    kProved,    // the handshake is done, by a node of the cluster: take()
    kFinished,  // answered, or failed, or not to be trusted: drop it
  };

  HalfOpen(Socket socket, const TlsContext& context, std::string host, Duration time,
           const EnrolHandler* enrol);

  Outcome advance();
  short events() const { return events_; }
  int fd() const { return channel_->socket().fd(); }
  const Deadline& deadline() const { return deadline_; }
  const std::string& host() const { return host_; }
  // After kProved.
  std::unique_ptr<TlsChannel> take() { return std::move(channel_); }

 private:
  enum class State { kHandshake, kQuestion, kAnswer };
  Outcome shake_hands();
  Outcome read_question();
  Outcome write_answer();
  // Sets events_, or ends with words in the log.
  Outcome after(TlsChannel::Step step);

  std::unique_ptr<TlsChannel> channel_;
  const std::string host_;
  const Deadline deadline_;
  const EnrolHandler* const enrol_;  // null: nobody can join
  State state_ = State::kHandshake;
  short events_;
  std::vector<std::byte> buffer_;  // the question, then what is left of the answer
  size_t done_ = 0;
};

}  // namespace butterfly::cluster
