// One TLS connection over one socket, without blocking and without threads: each call does what can be done
// now.
#pragma once
#include <openssl/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/transport/node_tls.h"
#include "cluster/transport/socket.h"

namespace butterfly::cluster {

// Records go out as OpenSSL makes them, in its own memory; small ones are held back until the next large one,
// and both leave with one call of the system. Not thread-safe: calls are serialised by the owner.
class TlsChannel {
 public:
  enum class Side { kServer, kClient };
  enum class Step { kDone, kWantRead, kWantWrite, kFailed };

  TlsChannel(Socket socket, const TlsContext& context, Side side);
  ~TlsChannel();
  TlsChannel(const TlsChannel&) = delete;
  TlsChannel& operator=(const TlsChannel&) = delete;

  Step handshake();
  // Some bytes, at least one with kDone.
  Step read(std::span<std::byte> into, size_t& count);
  // Bytes of the last record that read() has not handed over yet.
  size_t pending() const;
  // Whether something lies here that read() makes nothing of yet: a part of a record, say.
  bool has_part() const;
  // One record at most. With `more` it may be held back: the last piece of a message has none. After
  // kWantWrite the same bytes must come again.
  Step write(std::span<const std::byte> bytes, bool more, size_t& count);
  // Says that no more will be sent; as far as it goes.
  void say_goodbye();

  // The peer answered a handshake without TLS, as a web server's plain port does; and what it said, as far as
  // it is there by `deadline` and worth reading.
  bool speaks_http() const { return first_.starts_with(kHttp); }
  std::string http_answer(const Deadline& deadline) const;

  // Why the last step failed.
  const std::string& reason() const { return reason_; }
  // What the peer called this connection ("bf-link"); empty before the handshake ended.
  std::string_view protocol() const;
  // The certificate that the handshake accepted, and whose it is. kPeerLost, and an empty key, when there was
  // none.
  Result<Certificate> peer_certificate() const;
  NodeId peer() const;
  // New keys for what is sent from now on.
  void renew_keys();

  const Socket& socket() const { return socket_; }
  SSL* ssl() const { return ssl_.get(); }

  static constexpr size_t kRecordBytesMax = 16384;

 private:
  struct SslFree {
    void operator()(SSL* ssl) const;
  };
  friend struct ChannelBio;
  static constexpr std::string_view kHttp = "HTTP/";
  Step step_of(int returned);
  void keep_first(const char* bytes, size_t count);
  int send_record(const char* data, size_t size);  // what a BIO's write returns

  Socket socket_;
  TlsContext context_;  // lives as long as the connection: verification looks into it
  std::unique_ptr<SSL, SslFree> ssl_;
  std::string reason_;
  std::vector<char> held_;
  bool hold_ = false;
  bool at_end_ = false;  // the peer closed the socket
  int error_ = 0;        // of the system
  std::string first_;    // bytes that came: a few, and more of what is no TLS
};

}  // namespace butterfly::cluster
