#include "cluster/identity/join.h"

#include <poll.h>

#include "base/error.h"
#include "cluster/identity/enrolment.h"
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

Credentials join_cluster(const StateFolder& folder, const std::string& address, const JoinToken& token,
                         const std::string& node_name, Duration timeout) {
  if (const std::string why = why_not_node_name(node_name); !why.empty())
    fail(Errc::kInvalidArgument, "{}", why);
  if (has_credentials(folder))
    fail(Errc::kInvalidArgument, "{}: this node belongs to a cluster already", folder.path().string());
  PrivateKey key = load_or_make_key(folder);

  const Deadline deadline(SystemClock::instance(), timeout);
  const TlsContext context = join_context(token.authority_hash);
  const std::unique_ptr<TlsChannel> channel = tls_connect(context, address, deadline, {}).or_throw();
  if (channel->protocol() != kJoinProtocol) fail(Errc::kPeerLost, "{}: takes no new nodes", address);
  const EnrolmentRequest request{.secret = token.secret,
                                 .certificate_request = CertificateRequest::make(key, node_name).to_der()};
  const EnrolmentReply reply =
      EnrolmentReply::decode(ask(*channel, address, request.encode(), deadline)).or_throw();
  if (!reply.refusal.empty()) fail(Errc::kInvalidArgument, "{}: refused: {}", address, reply.refusal);

  const Certificate authority = Certificate::from_der(reply.authority).or_throw();
  const Certificate own = Certificate::from_der(reply.certificate).or_throw();
  if (authority.sha256() != token.authority_hash || !own.signed_by(authority) ||
      own.node().key != key.fingerprint())
    fail(Errc::kCorrupt, "{}: sent certificates that do not fit the token and this node's key", address);
  save_certificates(folder, authority, own);
  return {authority, own, std::move(key)};
}

}  // namespace butterfly::cluster
