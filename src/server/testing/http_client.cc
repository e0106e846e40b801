#include "server/testing/http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cctype>
#include <utility>

namespace butterfly::server::testing {

Client::Client(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

Client::~Client() {
  if (fd_ >= 0) ::close(fd_);
}

bool Client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool Client::fill(std::chrono::milliseconds time) {
  pollfd wait{fd_, POLLIN, 0};
  if (::poll(&wait, 1, static_cast<int>(time.count())) <= 0) return false;
  char block[65536];
  const ssize_t n = ::recv(fd_, block, sizeof block, 0);
  if (n <= 0) return false;
  held_.append(block, static_cast<size_t>(n));
  return true;
}

bool Client::closed(std::chrono::milliseconds time) {
  while (fill(time)) {
  }
  pollfd wait{fd_, POLLIN, 0};
  char byte;
  return ::poll(&wait, 1, 0) > 0 && ::recv(fd_, &byte, 1, MSG_DONTWAIT) <= 0;
}

std::string Client::read_until(std::string_view until, std::chrono::milliseconds time) {
  while (held_.find(until) == std::string::npos && fill(time)) {
  }
  const size_t at = held_.find(until);
  const size_t end = at == std::string::npos ? held_.size() : at + until.size();
  std::string out = held_.substr(0, end);
  held_.erase(0, end);
  return out;
}

Reply Client::read(std::chrono::milliseconds time) {
  Reply reply;
  const std::string head = read_until("\r\n\r\n", time);
  if (!head.starts_with("HTTP/1.1 ") || !head.ends_with("\r\n\r\n")) return reply;
  reply.status = std::stoi(head.substr(9, 3));
  if (reply.status == 100) return read(time);
  for (size_t at = head.find("\r\n") + 2; at + 2 < head.size();) {
    const size_t end = head.find("\r\n", at);
    const size_t colon = head.find(": ", at);
    std::string name = head.substr(at, colon - at);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    reply.fields[name] = head.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  if (reply.fields.contains("content-length")) {
    const size_t length = std::stoul(reply.fields["content-length"]);
    while (held_.size() < length && fill(time)) {
    }
    reply.body = held_.substr(0, length);
    held_.erase(0, length);
  } else if (reply.fields.contains("transfer-encoding")) {
    while (true) {
      const std::string line = read_until("\r\n", time);
      if (!line.ends_with("\r\n")) {
        reply.status = 0;
        return reply;
      }
      const size_t length = std::stoul(line, nullptr, 16);
      while (held_.size() < length + 2 && fill(time)) {
      }
      reply.body += held_.substr(0, length);
      held_.erase(0, length + 2);
      if (length == 0) break;
    }
  } else {
    while (fill(time)) {
    }
    reply.body = std::exchange(held_, {});
  }
  return reply;
}

std::string request_text(std::string_view method, std::string_view path, std::string_view body,
                         std::string_view more_fields) {
  const bool typed = more_fields.find("Content-Type:") != std::string_view::npos;
  const std::string length =
      body.empty() ? ""
                   : fmt::format("{}Content-Length: {}\r\n",
                                 typed ? "" : "Content-Type: application/json\r\n", body.size());
  const std::string host = more_fields.find("Host:") == std::string_view::npos ? "Host: localhost\r\n" : "";
  return fmt::format("{} {} HTTP/1.1\r\n{}{}{}\r\n{}", method, path, host, more_fields, length, body);
}

Reply ask(uint16_t port, std::string_view method, std::string_view path, std::string_view body,
          std::string_view more_fields) {
  Client client(port);
  if (!client.send(request_text(method, path, body, more_fields))) {
    // The answer may have come before all was sent.
  }
  return client.read();
}

}  // namespace butterfly::server::testing
