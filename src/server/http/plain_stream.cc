#include <boost/asio/write.hpp>

#include "server/http/stream.h"

namespace butterfly::server {
namespace {

using boost::system::error_code;

class PlainStream final : public Stream {
 public:
  explicit PlainStream(Socket socket) : socket_(std::move(socket)) {}

  void handshake(Done done) override {
    boost::asio::post(socket_.get_executor(), [done = std::move(done)] { done(true, 0); });
  }
  void read_some(char* to, size_t bytes_max, Done done) override {
    socket_.async_read_some(boost::asio::buffer(to, bytes_max),
                            [done = std::move(done)](error_code ec, size_t n) { done(!ec, n); });
  }
  void write(std::string_view bytes, Done done) override {
    boost::asio::async_write(socket_, boost::asio::buffer(bytes.data(), bytes.size()),
                             [done = std::move(done)](error_code ec, size_t n) { done(!ec, n); });
  }
  void shutdown_send() override {
    error_code ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
  }
  void close() override {
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  Socket socket_;
};

}  // namespace

std::unique_ptr<Stream> plain_stream(Socket socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

}  // namespace butterfly::server
