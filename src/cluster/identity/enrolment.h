// How a new node gets its certificate: what it sends, and who answers.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/identity/attempt_limiter.h"
#include "cluster/identity/authority.h"
#include "cluster/identity/join_token.h"
#include "cluster/identity/roster.h"

namespace butterfly::cluster {

// One message each way, over TLS to a server whose chain ends in the authority of the token. The new node
// shows the token's secret and a request signed with its key; the key itself stays where it is.
//
// A member renews its certificate the same way, with an empty secret: the request's signature shows that it
// has the key, and the roster that the key belongs here. A stranger who sends it again gets a certificate
// that is of use only to the owner of the key. So a machine that was off until its certificate ended comes
// back by itself.
struct EnrolmentRequest {
  std::string secret;
  std::vector<std::byte> certificate_request;  // DER

  std::vector<std::byte> encode() const;
  static Result<EnrolmentRequest> decode(std::span<const std::byte> body);
};
inline constexpr size_t kEnrolmentBytesMax = 8u << 10;  // of either message

// A certificate, or the reason why not.
struct EnrolmentReply {
  std::string refusal;
  std::vector<std::byte> certificate;  // DER
  std::vector<std::byte> authority;    // DER

  std::vector<std::byte> encode() const;
  static Result<EnrolmentReply> decode(std::span<const std::byte> body);
};

// Answers at the port of the node that holds the authority. Knows nothing of sockets. Thread-safe.
class EnrolmentDesk {
 public:
  using WallClock = std::function<WallTime()>;

  // Throws Error kNotFound when the folder has no authority.
  EnrolmentDesk(const StateFolder& folder, std::shared_ptr<Roster> roster,
                const Clock& clock = SystemClock::instance(), WallClock wall_clock = wall_now);

  // `body` is what came from `address` (without port); the answer is to be sent and the connection closed.
  // Never throws: what the disk refuses is refused to the node as well, and logged here.
  std::vector<std::byte> answer(std::span<const std::byte> body, const std::string& address);

 private:
  EnrolmentReply decide(std::span<const std::byte> body, const std::string& address);
  Status may_have_certificate(const EnrolmentRequest& request, const NodeId& node, WallTime now);

  const Authority authority_;
  TokenBook tokens_;
  const std::shared_ptr<Roster> roster_;
  AttemptLimiter limiter_;
  const WallClock wall_clock_;
};

}  // namespace butterfly::cluster
