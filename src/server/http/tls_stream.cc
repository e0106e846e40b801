#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>

#include "server/http/stream.h"

namespace butterfly::server {
namespace {

using boost::system::error_code;

class TlsStream final : public Stream {
 public:
  TlsStream(Socket socket, boost::asio::ssl::context& context) : stream_(std::move(socket), context) {}

  void handshake(Done done) override {
    stream_.async_handshake(boost::asio::ssl::stream_base::server,
                            [done = std::move(done)](error_code ec) { done(!ec, 0); });
  }
  void read_some(char* to, size_t bytes_max, Done done) override {
    stream_.async_read_some(boost::asio::buffer(to, bytes_max),
                            [done = std::move(done)](error_code ec, size_t n) { done(!ec, n); });
  }
  void write(std::string_view bytes, Done done) override {
    boost::asio::async_write(stream_, boost::asio::buffer(bytes.data(), bytes.size()),
                             [done = std::move(done)](error_code ec, size_t n) { done(!ec, n); });
  }
  // Without TLS's own farewell: lengths and chunks already say where an answer ends.
  void shutdown_send() override {
    error_code ignored;
    stream_.lowest_layer().shutdown(Socket::shutdown_send, ignored);
  }
  void close() override {
    error_code ignored;
    stream_.lowest_layer().close(ignored);
  }

 private:
  boost::asio::ssl::stream<Socket> stream_;
};

}  // namespace

std::unique_ptr<Stream> tls_stream(Socket socket, boost::asio::ssl::context& context) {
  return std::make_unique<TlsStream>(std::move(socket), context);
}

}  // namespace butterfly::server
