// The bytes of one accepted connection: plain, or TLS. Only for http/.
#pragma once
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace butterfly::server {

// Both TCP and unix sockets.
using Socket = boost::asio::generic::stream_protocol::socket;

// At most one read and one write at a time. Handlers run on the socket's executor, never inside the call.
// After close() they still run, with ok = false.
class Stream {
 public:
  using Done = std::function<void(bool ok, size_t bytes)>;
  virtual ~Stream() = default;
  virtual void handshake(Done done) = 0;
  virtual void read_some(char* to, size_t bytes_max, Done done) = 0;
  virtual void write(std::string_view bytes, Done done) = 0;  // all of them; borrowed until done
  virtual void shutdown_send() = 0;                           // no more answers: the client reads an end
  virtual void close() = 0;
};

std::unique_ptr<Stream> plain_stream(Socket socket);
// `context` must outlive the stream.
std::unique_ptr<Stream> tls_stream(Socket socket, boost::asio::ssl::context& context);

}  // namespace butterfly::server
