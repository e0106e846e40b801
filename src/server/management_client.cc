#include "server/management_client.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/private_folder.h"
#include "cluster/transport/socket.h"
#include "server/settings/settings.h"

namespace butterfly::server {
namespace {

constexpr size_t kAnswerBytesMax = size_t{16} << 20;

void set_timeout(int fd, std::chrono::milliseconds timeout) {
  timeval time{};
  time.tv_sec = timeout.count() / 1000;
  time.tv_usec = timeout.count() % 1000 * 1000;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

[[noreturn]] void io_failed(const std::filesystem::path& socket, const char* doing) {
  if (errno == EAGAIN || errno == EWOULDBLOCK)
    fail(Errc::kTimeout, "{}: the server does not answer", socket.string());
  fail(Errc::kIo, "{}: cannot {}: {}", socket.string(), doing, std::strerror(errno));
}

}  // namespace

ManagementAnswer ask_server(const std::filesystem::path& socket, const std::string& method,
                            const std::string& path, const std::string& body,
                            std::chrono::milliseconds timeout) {
  struct stat about {};
  if (::lstat(socket.c_str(), &about) != 0)
    fail(Errc::kNotFound, "no server runs here ({}: {})", socket.string(), std::strerror(errno));
  if (about.st_uid != ::geteuid())
    fail(Errc::kInvalidArgument, "{}: belongs to another user", socket.string());
  const cluster::Socket connection(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int fd = connection.fd();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (fd < 0 || socket.string().size() >= sizeof address.sun_path) io_failed(socket, "open a socket");
  std::memcpy(address.sun_path, socket.c_str(), socket.string().size());
  set_timeout(fd, timeout);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    fail(Errc::kNotFound, "no server runs here ({}: {})", socket.string(), std::strerror(errno));
  const std::string request = fmt::format(
      "{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: "
      "application/json\r\nContent-Length: {}\r\n\r\n{}",
      method, path, body.size(), body);
  for (size_t sent = 0; sent < request.size();) {
    const ssize_t n = ::send(fd, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) io_failed(socket, "send");
    sent += static_cast<size_t>(n);
  }
  std::string answer;
  char block[4096];
  while (answer.size() < kAnswerBytesMax) {
    const ssize_t n = ::recv(fd, block, sizeof block, 0);
    if (n < 0) io_failed(socket, "read");
    if (n == 0) break;
    answer.append(block, static_cast<size_t>(n));
  }
  const size_t head = answer.find("\r\n\r\n");
  if (head == std::string::npos || !answer.starts_with("HTTP/1.1 ") || answer.size() < 12)
    fail(Errc::kIo, "{}: the server's answer is not whole", socket.string());
  return {std::atoi(answer.c_str() + 9), answer.substr(head + 4)};
}

std::vector<std::filesystem::path> running_servers() {
  std::vector<std::filesystem::path> sockets;
  std::error_code none;
  const std::filesystem::path folder = default_management_path(0).parent_path();
  // In a folder that somebody else prepared are his servers, not ours.
  if (!why_not_private(folder).empty()) return sockets;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    if (entry.is_socket(none) && entry.path().filename().string().starts_with("serve-"))
      sockets.push_back(entry.path());
  std::sort(sockets.begin(), sockets.end());
  return sockets;
}

}  // namespace butterfly::server
