#include "cli/download/byte_stream.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "cluster/transport/socket.h"

namespace butterfly::cli {
namespace {

// Where distributions keep the authorities that they believe, beside OpenSSL's own default.
constexpr const char* kBundles[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                    "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

Status lost(const std::string& place, std::string_view why) {
  return {Errc::kPeerLost, fmt::format("{}: the connection was lost: {}", place, why)};
}
Status late(const std::string& place) { return {Errc::kTimeout, fmt::format("{}: does not answer", place)}; }

class PlainStream : public ByteStream {
 public:
  PlainStream(cluster::Socket socket, std::string place, Duration patience)
      : socket_(std::move(socket)), place_(std::move(place)), patience_(patience) {}

  Result<size_t> read(std::span<char> into) override {
    const Deadline deadline(SystemClock::instance(), patience_);
    for (;;) {
      const ssize_t n = ::recv(socket_.fd(), into.data(), into.size(), 0);
      if (n >= 0) return static_cast<size_t>(n);
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return lost(place_, std::strerror(errno));
      if (!cluster::wait_ready(socket_.fd(), POLLIN, deadline)) return late(place_);
    }
  }

  Status write(std::span<const char> bytes) override {
    const Deadline deadline(SystemClock::instance(), patience_);
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n > 0) {
        bytes = bytes.subspan(static_cast<size_t>(n));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (!cluster::wait_ready(socket_.fd(), POLLOUT, deadline)) return late(place_);
      } else if (errno != EINTR) {
        return lost(place_, std::strerror(errno));
      }
    }
    return {};
  }

 protected:
  cluster::Socket socket_;
  const std::string place_;
  const Duration patience_;
};

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

std::string reason() {
  const char* words = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return words == nullptr ? "no reason given" : words;
}

class TlsStream : public PlainStream {
 public:
  using PlainStream::PlainStream;

  Status greet(const std::string& host) {
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (context_ == nullptr) return {Errc::kIo, "TLS: " + reason()};
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION);
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_default_verify_paths(context_.get());
    if (std::getenv("SSL_CERT_FILE") == nullptr && std::getenv("SSL_CERT_DIR") == nullptr)
      for (const char* bundle : kBundles)
        if (std::error_code ignored; std::filesystem::exists(bundle, ignored))
          SSL_CTX_load_verify_locations(context_.get(), bundle, nullptr);
    ERR_clear_error();
    ssl_.reset(SSL_new(context_.get()));
    if (ssl_ == nullptr || SSL_set_fd(ssl_.get(), socket_.fd()) != 1) return {Errc::kIo, "TLS: " + reason()};
    const bool number = host.find_first_not_of("0123456789.:abcdef") == std::string::npos;
    if (number) {
      X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), host.c_str());
    } else {
      SSL_set_tlsext_host_name(ssl_.get(), host.c_str());
      SSL_set1_host(ssl_.get(), host.c_str());
    }
    const Result<size_t> done = go([&] { return SSL_connect(ssl_.get()); });
    const long verified = SSL_get_verify_result(ssl_.get());
    if (!done && verified != X509_V_OK)
      return {Errc::kInvalidArgument,
              fmt::format("{}: its certificate is not believed: {}; SSL_CERT_FILE names other authorities, "
                          "ca-certificates is the package with the usual ones",
                          place_, X509_verify_cert_error_string(verified))};
    return done ? Status() : done.status();
  }

  Result<size_t> read(std::span<char> into) override {
    return go([&] { return SSL_read(ssl_.get(), into.data(), static_cast<int>(into.size())); });
  }

  Status write(std::span<const char> bytes) override {
    const Result<size_t> done =
        go([&] { return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())); });
    return done ? Status() : done.status();
  }

 private:
  // One of OpenSSL's calls until it is through; 0: the other end has said goodbye.
  template <typename Call>
  Result<size_t> go(Call call) {
    const Deadline deadline(SystemClock::instance(), patience_);
    for (;;) {
      ERR_clear_error();
      const int n = call();
      if (n > 0) return static_cast<size_t>(n);
      const int error = SSL_get_error(ssl_.get(), n);
      if (error == SSL_ERROR_ZERO_RETURN) return size_t{0};
      if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE)
        return lost(place_, error == SSL_ERROR_SYSCALL ? "it was cut off" : reason());
      if (!cluster::wait_ready(socket_.fd(), error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline))
        return late(place_);
    }
  }

  std::unique_ptr<SSL_CTX, FreeContext> context_;
  std::unique_ptr<SSL, FreeSsl> ssl_;
};

}  // namespace

Result<std::unique_ptr<ByteStream>> open_stream(const Url& url, Duration patience) {
  Result<cluster::Socket> socket =
      cluster::connect_socket(url.authority(), Deadline(SystemClock::instance(), patience));
  if (!socket) return socket.status();
  if (!url.tls)
    return std::unique_ptr<ByteStream>(
        std::make_unique<PlainStream>(std::move(*socket), url.authority(), patience));
  auto stream = std::make_unique<TlsStream>(std::move(*socket), url.authority(), patience);
  if (Status status = stream->greet(url.host); !status) return status;
  return std::unique_ptr<ByteStream>(std::move(stream));
}

}  // namespace butterfly::cli
