#include "cluster/transport/tls_channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "cluster/identity/openssl_ptr.h"

namespace butterfly::cluster {
namespace {

constexpr size_t kHeldRecordMax = 2u << 10;  // larger records cost more to copy than a call
constexpr size_t kHeldBytesMax = 8u << 10;
constexpr size_t kHttpBytesMax = 4u << 10;  // of an answer that is no TLS

}  // namespace

// OpenSSL's way to our socket. Its own has one send() per record, and raises SIGPIPE.
struct ChannelBio {
  static TlsChannel& channel(BIO* bio) { return *static_cast<TlsChannel*>(BIO_get_data(bio)); }

  static int write(BIO* bio, const char* data, int size) {
    BIO_clear_retry_flags(bio);
    const int sent = channel(bio).send_record(data, static_cast<size_t>(size));
    if (sent < 0 && channel(bio).error_ == EAGAIN) BIO_set_retry_write(bio);
    return sent;
  }

  static int read(BIO* bio, char* into, int size) {
    TlsChannel& owner = channel(bio);
    BIO_clear_retry_flags(bio);
    for (;;) {
      const ssize_t count = ::recv(owner.socket_.fd(), into, static_cast<size_t>(size), MSG_DONTWAIT);
      if (count > 0) {
        owner.keep_first(into, static_cast<size_t>(count));
        return static_cast<int>(count);
      }
      if (count == 0) {
        owner.at_end_ = true;
        return 0;
      }
      if (errno == EINTR) continue;
      owner.error_ = errno == EWOULDBLOCK ? EAGAIN : errno;
      if (owner.error_ == EAGAIN) BIO_set_retry_read(bio);
      return -1;
    }
  }

  static long control(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_FLUSH) return 1;
    if (command == BIO_CTRL_EOF) return channel(bio).at_end_ ? 1 : 0;
    return 0;
  }

  static const BIO_METHOD* method() {
    static BIO_METHOD* const made = [] {
      BIO_METHOD* fresh = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "butterfly socket");
      openssl_must(fresh != nullptr && BIO_meth_set_write(fresh, write) && BIO_meth_set_read(fresh, read) &&
                       BIO_meth_set_ctrl(fresh, control),
                   "BIO");
      return fresh;
    }();
    return made;
  }
};

void TlsChannel::SslFree::operator()(SSL* ssl) const { SSL_free(ssl); }

TlsChannel::TlsChannel(Socket socket, const TlsContext& context, Side side)
    : socket_(std::move(socket)), context_(context), ssl_(SSL_new(context.get())) {
  openssl_must(ssl_ != nullptr, "TLS connection");
  BIO* bio = BIO_new(ChannelBio::method());
  openssl_must(bio != nullptr, "BIO");
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);  // takes it
  if (side == Side::kServer)
    SSL_set_accept_state(ssl_.get());
  else
    SSL_set_connect_state(ssl_.get());
  held_.reserve(kHeldBytesMax);
}

TlsChannel::~TlsChannel() = default;

TlsChannel::Step TlsChannel::handshake() {
  ERR_clear_error();
  return step_of(SSL_do_handshake(ssl_.get()));
}

TlsChannel::Step TlsChannel::read(std::span<std::byte> into, size_t& count) {
  ERR_clear_error();
  return step_of(SSL_read_ex(ssl_.get(), into.data(), into.size(), &count));
}

size_t TlsChannel::pending() const { return static_cast<size_t>(std::max(0, SSL_pending(ssl_.get()))); }
bool TlsChannel::has_part() const { return SSL_has_pending(ssl_.get()) == 1; }

TlsChannel::Step TlsChannel::write(std::span<const std::byte> bytes, bool more, size_t& count) {
  BF_DCHECK(!bytes.empty());
  ERR_clear_error();
  hold_ = more;
  const Step step =
      step_of(SSL_write_ex(ssl_.get(), bytes.data(), std::min(bytes.size(), kRecordBytesMax), &count));
  hold_ = false;
  return step;
}

void TlsChannel::keep_first(const char* bytes, size_t count) {
  const size_t most = first_.size() < kHttp.size() || speaks_http() ? kHttpBytesMax : 0;
  first_.append(bytes, std::min(count, most - std::min(most, first_.size())));
  if (first_.size() >= kHttp.size() && !speaks_http()) first_.resize(kHttp.size());
}

std::string TlsChannel::http_answer(const Deadline& deadline) const {
  std::string text = first_;
  while (text.size() < kHttpBytesMax && text.find("\r\n\r\n") == std::string::npos) {
    char block[512];
    const ssize_t count = ::recv(socket_.fd(), block, sizeof block, MSG_DONTWAIT);
    if (count > 0) text.append(block, static_cast<size_t>(count));
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) break;
    if (count < 0 && !wait_ready(socket_.fd(), POLLIN, deadline)) break;
  }
  return text;
}

void TlsChannel::say_goodbye() {
  ERR_clear_error();
  if (SSL_is_init_finished(ssl_.get())) (void)SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

std::string_view TlsChannel::protocol() const {
  const unsigned char* name = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &name, &size);
  return {reinterpret_cast<const char*>(name), size};
}

Result<Certificate> TlsChannel::peer_certificate() const {
  X509Ptr raw(SSL_get1_peer_certificate(ssl_.get()));
  if (raw == nullptr || SSL_get_verify_result(ssl_.get()) != X509_V_OK)
    return {Errc::kPeerLost, "the peer has proved nothing"};
  return Certificate(std::shared_ptr<X509>(std::move(raw)));
}

NodeId TlsChannel::peer() const {
  const auto certificate = peer_certificate();
  return certificate ? certificate->node() : NodeId{};
}

void TlsChannel::renew_keys() { (void)SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED); }

TlsChannel::Step TlsChannel::step_of(int returned) {
  if (returned > 0) return Step::kDone;
  switch (SSL_get_error(ssl_.get(), returned)) {
    case SSL_ERROR_WANT_READ:
      return Step::kWantRead;
    case SSL_ERROR_WANT_WRITE:
      return Step::kWantWrite;
    case SSL_ERROR_ZERO_RETURN:
      reason_ = "closed by the peer";
      break;
    case SSL_ERROR_SYSCALL:
      reason_ = at_end_ ? "closed by the peer" : std::strerror(error_);
      break;
    default: {
      const long verified = SSL_get_verify_result(ssl_.get());
      reason_ = at_end_ ? "closed by the peer" : openssl_reason();
      if (verified != X509_V_OK) reason_ += fmt::format(" ({})", X509_verify_cert_error_string(verified));
    }
  }
  ERR_clear_error();
  return Step::kFailed;
}

// The held records go first, always: whatever OpenSSL writes keeps its order.
int TlsChannel::send_record(const char* data, size_t size) {
  if (hold_ && size <= kHeldRecordMax && held_.size() + size <= kHeldBytesMax) {
    held_.insert(held_.end(), data, data + size);
    return static_cast<int>(size);
  }
  for (;;) {
    iovec pieces[2] = {{held_.data(), held_.size()}, {const_cast<char*>(data), size}};
    msghdr message{};
    message.msg_iov = held_.empty() ? pieces + 1 : pieces;
    message.msg_iovlen = held_.empty() ? 1 : 2;
    const ssize_t count = ::sendmsg(socket_.fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0) {
      if (errno == EINTR) continue;
      error_ = errno == EWOULDBLOCK ? EAGAIN : errno;
      return -1;
    }
    const size_t of_held = std::min(held_.size(), static_cast<size_t>(count));
    held_.erase(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(of_held));
    if (const size_t of_data = static_cast<size_t>(count) - of_held; of_data > 0)
      return static_cast<int>(of_data);
  }
}

}  // namespace butterfly::cluster
