#include "server/http/http_server.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/private_folder.h"
#include "base/secret.h"
#include "base/thread_priority.h"
#include "server/http/connection.h"

namespace butterfly::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Local = asio::local::stream_protocol;

constexpr int kBacklog = 4096;
constexpr std::chrono::milliseconds kAcceptPause{50};  // when descriptors have run out

std::optional<asio::ssl::context> make_tls(const HttpServerOptions& options) {
  if (options.tls_certificate.empty() && options.tls_key.empty()) return std::nullopt;
  if (options.tls_certificate.empty() || options.tls_key.empty())
    fail(Errc::kInvalidArgument, "HTTPS needs both a certificate and its key");
  asio::ssl::context context(asio::ssl::context::tls_server);
  context.set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1 |
                      asio::ssl::context::no_compression);
  struct stat about {};
  if (::stat(options.tls_key.c_str(), &about) == 0 && (about.st_mode & 07) != 0)
    fail(Errc::kInvalidArgument, "{}: everybody on this machine may read the key (mode {:o}); chmod 600 it",
         options.tls_key, about.st_mode & 0777);
  error_code ec;
  context.use_certificate_chain_file(options.tls_certificate, ec);
  if (ec)
    fail(Errc::kInvalidArgument, "{}: no PEM certificate chain: {}", options.tls_certificate, ec.message());
  context.use_private_key_file(options.tls_key, asio::ssl::context::pem, ec);
  if (ec)
    fail(Errc::kInvalidArgument, "{}: no PEM key that fits the certificate: {}", options.tls_key,
         ec.message());
  return context;
}

tcp::acceptor listen_tcp(asio::io_context& io, const HttpServerOptions& options) {
  const std::string place = fmt::format("{}:{}", options.host, options.port);
  error_code ec;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(options.host, std::to_string(options.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service, ec);
  if (ec || found.empty()) fail(Errc::kNotFound, "cannot listen on {}: {}", place, ec.message());
  const tcp::endpoint endpoint = found.begin()->endpoint();
  tcp::acceptor acceptor(io);
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(kBacklog, ec);
  if (ec == asio::error::address_in_use)
    fail(Errc::kIo,
         "cannot listen on {}: another program does; choose another port (--port N, 0: any), or end "
         "that one ('butterfly ps', 'butterfly stop')",
         place);
  if (ec) fail(Errc::kIo, "cannot listen on {}: {}", place, ec.message());
  return acceptor;
}

// True if a server answers there.
bool is_alive(asio::io_context& io, const std::string& path) {
  Local::socket probe(io);
  error_code ec;
  probe.connect(Local::endpoint(path), ec);
  return !ec;
}

Local::acceptor listen_unix(asio::io_context& io, const std::string& path) {
  if (path.size() >= sizeof(sockaddr_un::sun_path))
    fail(Errc::kInvalidArgument, "{}: too long for a unix socket ({} bytes, at most {})", path, path.size(),
         sizeof(sockaddr_un::sun_path) - 1);
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty() && !std::filesystem::exists(folder, ignored)) make_private_folder(folder);
  if (std::filesystem::is_socket(path, ignored)) {
    if (is_alive(io, path)) fail(Errc::kIo, "{}: another server listens there", path);
    ::unlink(path.c_str());
  }
  Local::acceptor acceptor(io);
  error_code ec;
  acceptor.open(Local(), ec);
  // Nobody else may connect even for a moment: the mask holds while the file is made.
  const mode_t before = ::umask(0177);
  if (!ec) acceptor.bind(Local::endpoint(path), ec);
  ::umask(before);
  if (!ec) acceptor.listen(64, ec);
  if (ec) fail(Errc::kIo, "{}: cannot make the socket: {}", path, ec.message());
  return acceptor;
}

}  // namespace

struct HttpServer::Impl {
  HttpServerOptions options;
  std::shared_ptr<ConnectionShared> shared = std::make_shared<ConnectionShared>();
  std::optional<asio::ssl::context> tls;
  std::optional<tcp::acceptor> network;
  std::optional<Local::acceptor> management;
  std::optional<asio::signal_set> signals;
  asio::steady_timer accept_pause{shared->io};

  template <typename Acceptor>
  void accept(Acceptor& acceptor, Door door) {
    acceptor.async_accept([this, &acceptor, door](error_code ec, auto socket) {
      if (!acceptor.is_open()) return;
      if (ec == asio::error::no_descriptors || ec == asio::error::no_buffer_space ||
          ec == asio::error::no_memory) {
        make_room();
        accept_pause.expires_after(kAcceptPause);
        accept_pause.async_wait([this, &acceptor, door](error_code stopped) {
          if (!stopped) accept(acceptor, door);
        });
        return;
      }
      // One that there is no memory for is closed; the next may find some.
      try {
        if (!ec) take(std::move(socket), door);
      } catch (const std::exception& error) {
        log_error("network: a connection was closed: {}", error.what());
      }
      accept(acceptor, door);
    });
  }

  template <typename AnySocket>
  void take(AnySocket socket, Door door) {
    error_code ignored;
    if (door == Door::kNetwork) socket.set_option(tcp::no_delay(true), ignored);
    while (shared->waiting.size() + shared->busy.size() >= shared->limits.connection_count)
      if (!make_room()) return;  // every connection has a request that is being answered
    Socket plain(std::move(socket));
    auto stream =
        tls && door == Door::kNetwork ? tls_stream(std::move(plain), *tls) : plain_stream(std::move(plain));
    std::make_shared<Connection>(shared, std::move(stream), door)->start();
  }

  bool make_room() {
    if (shared->waiting.empty()) return false;
    ++shared->counters.evicted;
    const auto longest = shared->waiting.front();
    longest->close();
    return true;
  }

  void stop_accepting() {
    if (shared->draining) return;
    shared->draining = true;
    error_code ignored;
    if (network) network->close(ignored);
    std::vector<std::shared_ptr<Connection>> idle;
    for (const auto& connection : shared->waiting)
      if (connection->idle()) idle.push_back(connection);
    for (const auto& connection : idle) connection->close();
  }

  void watch_signals(std::function<void(int)> action) {
    signals->async_wait([this, action = std::move(action)](error_code ec, int signal) mutable {
      if (ec) return;
      action(signal);
      watch_signals(std::move(action));
    });
  }
};

HttpResponse refuse_in_words(int status, const std::string& words) {
  HttpResponse response;
  response.status = status;
  response.content_type = "text/plain; charset=utf-8";
  response.body = words + "\n";
  return response;
}

HttpServer::HttpServer(HttpServerOptions options, HeadCheck check, Dispatch dispatch)
    : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  ConnectionShared& shared = *impl_->shared;
  shared.large_body = impl_->options.large_body;
  shared.limits = impl_->options.limits;
  shared.check = std::move(check);
  shared.refuse = impl_->options.refuse;
  shared.dispatch = std::move(dispatch);
  shared.id_prefix = "req-" + random_hex(8) + "-";
  impl_->tls = make_tls(impl_->options);
  if (impl_->options.network) impl_->network.emplace(listen_tcp(shared.io, impl_->options));
  if (!impl_->options.unix_path.empty())
    impl_->management.emplace(listen_unix(shared.io, impl_->options.unix_path));
}

HttpServer::~HttpServer() {
  if (impl_->management) {
    error_code ignored;
    impl_->management->close(ignored);
    ::unlink(impl_->options.unix_path.c_str());
  }
  // Handlers hold connections, and those hold the context: run what is left, so that all of them end.
  impl_->stop_accepting();
  for (ConnectionList* list : {&impl_->shared->waiting, &impl_->shared->busy})
    while (!list->empty()) std::shared_ptr<Connection>(list->front())->close();
  impl_->signals.reset();
  impl_->accept_pause.cancel();
  impl_->shared->io.restart();
  impl_->shared->io.poll();
}

uint16_t HttpServer::port() const { return impl_->network ? impl_->network->local_endpoint().port() : 0; }
const HttpCounters& HttpServer::counters() const { return impl_->shared->counters; }

void HttpServer::run() {
  wake_soon();
  if (impl_->network) impl_->accept(*impl_->network, Door::kNetwork);
  if (impl_->management) impl_->accept(*impl_->management, Door::kManagement);
  const auto work = asio::make_work_guard(impl_->shared->io);
  for (;;) {
    try {
      impl_->shared->io.run();
      return;
    } catch (const std::exception& error) {
      // A handler that throws (memory, say) costs its connection, not the server.
      log_error("network: {}", error.what());
    }
  }
}

void HttpServer::post(std::function<void()> action) { asio::post(impl_->shared->io, std::move(action)); }

void HttpServer::after(std::chrono::milliseconds delay, std::function<void()> action) {
  auto timer = std::make_shared<asio::steady_timer>(impl_->shared->io, delay);
  timer->async_wait([timer, action = std::move(action)](error_code ec) {
    if (!ec) action();
  });
}

void HttpServer::stop_accepting() {
  post([this] { impl_->stop_accepting(); });
}

void HttpServer::stop() { impl_->shared->io.stop(); }

void HttpServer::on_signal(std::function<void(int)> action) {
  impl_->signals.emplace(impl_->shared->io, SIGTERM, SIGINT);
  impl_->watch_signals(std::move(action));
}

size_t HttpServer::open_exchanges() const { return impl_->shared->open_exchanges; }
size_t HttpServer::unanswered() const { return impl_->shared->unanswered; }

}  // namespace butterfly::server
