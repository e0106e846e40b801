#include "cluster/enrol/enrolment_client.h"

#include <poll.h>

#include "base/error.h"
#include "cluster/transport/frame.h"
#include "cluster/transport/tls_handshake.h"

namespace butterfly::cluster {
namespace {

// Blocks where a TlsChannel does not.
class Talk {
 public:
  Talk(TlsChannel& channel, std::string address, const Deadline& deadline)
      : channel_(channel), address_(std::move(address)), deadline_(deadline) {}

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      size_t count = 0;
      wait(channel_.write(bytes, false, count));
      bytes = bytes.subspan(count);
    }
  }
  void read(std::span<std::byte> into) {
    while (!into.empty()) {
      size_t count = 0;
      wait(channel_.read(into, count));
      into = into.subspan(count);
    }
  }

 private:
  void wait(TlsChannel::Step step) {
    if (step == TlsChannel::Step::kDone) return;
    if (step == TlsChannel::Step::kFailed) fail(Errc::kPeerLost, "{}: {}", address_, channel_.reason());
    if (!wait_ready(channel_.socket().fd(), step == TlsChannel::Step::kWantRead ? POLLIN : POLLOUT,
                    deadline_))
      fail(Errc::kTimeout, "{}: did not answer in time", address_);
  }

  TlsChannel& channel_;
  const std::string address_;
  const Deadline& deadline_;
};

std::vector<std::byte> ask(TlsChannel& channel, const std::string& address,
                           std::span<const std::byte> question, const Deadline& deadline) {
  Talk talk(channel, address, deadline);
  MessageHead head{
      .kind = MessageKind::kControl, .epoch = 0, .step = 0, .bytes = static_cast<uint32_t>(question.size())};
  talk.write(encode_frame(head));
  talk.write(question);
  FrameBytes frame;
  talk.read(frame);
  head = decode_frame(frame).or_throw();
  if (head.kind != MessageKind::kControl || head.bytes > kEnrolmentBytesMax)
    fail(Errc::kCorrupt, "{}: the answer is {} of {} bytes", address, message_kind_name(head.kind),
         head.bytes);
  std::vector<std::byte> answer(head.bytes);
  talk.read(answer);
  return answer;
}

}  // namespace

EnrolmentReply ask_authority(const std::string& address, const std::string& authority_hash,
                             const std::string& secret, const CertificateRequest& request, Duration timeout) {
  const Deadline deadline(SystemClock::instance(), timeout);
  std::string other;
  const TlsContext context = join_context(authority_hash, &other);
  auto connected = tls_connect(context, address, deadline, {});
  if (!connected && !other.empty())
    fail(Errc::kInvalidArgument,
         "{}: belongs to another cluster (its authority is {:.12}, the token is for {:.12}): nothing was "
         "said to it; check "
         "the address and the token",
         address, other, authority_hash);
  const std::unique_ptr<TlsChannel> channel = std::move(connected).or_throw();
  if (channel->protocol() != kJoinProtocol) fail(Errc::kPeerLost, "{}: takes no new nodes", address);
  // Any member has a certificate of the authority, and could wait there for tokens.
  const Certificate server = channel->peer_certificate().or_throw();
  if (const std::string coordinator = server.coordinator();
      !coordinator.empty() && coordinator != server.node().key)
    fail(Errc::kInvalidArgument,
         "{}: is node {}, which does not coordinate this cluster: nothing was said to it", address,
         server.node().name);
  const EnrolmentRequest question{.secret = secret, .certificate_request = request.to_der()};
  EnrolmentReply reply =
      EnrolmentReply::decode(ask(*channel, address, question.encode(), deadline)).or_throw();
  if (!reply.refusal.empty()) fail(Errc::kInvalidArgument, "{}: refused: {}", address, reply.refusal);
  return reply;
}

}  // namespace butterfly::cluster
