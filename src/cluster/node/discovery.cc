#include "cluster/node/discovery.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "cluster/transport/socket.h"
#include "cluster/wire/wire_reader.h"
#include "cluster/wire/wire_writer.h"

namespace butterfly::cluster {
namespace {

constexpr uint64_t kQuestion = 0x3f31'6473'6964'6662;  // "bfdisd1?"
constexpr uint64_t kAnswer = 0x2131'6473'6964'6662;    // "bfdisd1!"
constexpr size_t kNameMax = 63;
constexpr size_t kFoundMax = 64;
constexpr int kAnswersPerSecond = 20;

sockaddr_in ipv4(uint32_t host_order, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(host_order);
  return address;
}

std::string text_of(const sockaddr_in& address, uint16_t port) {
  char text[INET_ADDRSTRLEN] = {};
  ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  return fmt::format("{}:{}", text, port);
}

// 10/8, 172.16/12, 192.168/16, 169.254/16, 100.64/10 and loopback: questions from elsewhere are not local.
bool is_private(const sockaddr_in& address) {
  const uint32_t host = ntohl(address.sin_addr.s_addr);
  const auto in = [&](uint32_t network, int bits) { return host >> (32 - bits) == network >> (32 - bits); };
  return in(0x0a000000, 8) || in(0xac100000, 12) || in(0xc0a80000, 16) || in(0xa9fe0000, 16) ||
         in(0x64400000, 10) || in(0x7f000000, 8);
}

uint32_t host_order(const sockaddr* address) {
  sockaddr_in copy{};
  std::memcpy(&copy, address, sizeof copy);
  return ntohl(copy.sin_addr.s_addr);
}

// Where to ask: the broadcast address of every interface that has one.
std::vector<sockaddr_in> broadcasts(uint16_t port) {
  std::vector<sockaddr_in> out;
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return out;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(raw, ::freeifaddrs);
  for (const ifaddrs* at = raw; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET || (at->ifa_flags & IFF_UP) == 0 ||
        (at->ifa_flags & IFF_BROADCAST) == 0 || at->ifa_netmask == nullptr)
      continue;
    // Not ifa_broadaddr: an address that was given by hand often has none. The last one of the network does.
    const uint32_t mask = host_order(at->ifa_netmask);
    out.push_back(ipv4(host_order(at->ifa_addr) | ~mask, port));
  }
  out.push_back(ipv4(INADDR_LOOPBACK, port));
  return out;
}

std::optional<sockaddr_in> parse_target(const std::string& text) {
  const size_t colon = text.find(':');
  uint16_t port = 0;
  sockaddr_in address = ipv4(0, 0);
  if (colon == std::string::npos) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (::inet_pton(AF_INET, text.substr(0, colon).c_str(), &address.sin_addr) != 1) return std::nullopt;
  address.sin_port = htons(port);
  return address;
}

bool wait_readable(int fd, Duration wait) {
  pollfd poll_fd{fd, POLLIN, 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::max(wait, Duration{})).count();
  return ::poll(&poll_fd, 1, static_cast<int>(ms)) == 1;
}

}  // namespace

std::vector<std::byte> encode_question(const DiscoveryNonce& nonce) {
  WireWriter out(kDiscoveryBytes);
  out.u64(kQuestion);
  out.raw(nonce);
  std::vector<std::byte> packet = std::move(out).take();
  packet.resize(kDiscoveryBytes);
  return packet;
}

std::vector<std::byte> encode_answer(const DiscoveryNonce& nonce, const DiscoveryAnswer& answer) {
  WireWriter out(kDiscoveryBytes);
  out.u64(kAnswer);
  out.raw(nonce);
  out.u16(answer.port);
  out.text(std::string_view(answer.cluster).substr(0, kNameMax));
  out.text(std::string_view(answer.node).substr(0, kNameMax));
  BF_CHECK(out.size() <= kDiscoveryBytes);
  return std::move(out).take();
}

std::optional<DiscoveryNonce> decode_question(std::span<const std::byte> packet) {
  WireReader in(packet);
  DiscoveryNonce nonce{};
  const uint64_t magic = in.u64();
  const auto bytes = in.raw(nonce.size());
  if (packet.size() != kDiscoveryBytes || magic != kQuestion) return std::nullopt;
  std::copy(bytes.begin(), bytes.end(), nonce.begin());
  return nonce;
}

std::optional<DiscoveryAnswer> decode_answer(std::span<const std::byte> packet, const DiscoveryNonce& nonce) {
  WireReader in(packet);
  const uint64_t magic = in.u64();
  const auto bytes = in.raw(nonce.size());
  DiscoveryAnswer answer;
  answer.port = in.u16();
  answer.cluster = in.text(kNameMax);
  answer.node = in.text(kNameMax);
  if (!in.finish("discovery").ok() || magic != kAnswer || answer.port == 0) return std::nullopt;
  if (!std::equal(bytes.begin(), bytes.end(), nonce.begin(), nonce.end())) return std::nullopt;
  for (std::string* name : {&answer.cluster, &answer.node})
    for (char& c : *name)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';  // shown on terminals
  return answer;
}

Result<std::vector<FoundCluster>> discover(Duration wait, uint16_t port,
                                           const std::vector<std::string>& targets) {
  const Socket socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int fd = socket.fd();
  const int yes = 1;
  if (fd < 0 || ::setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &yes, sizeof yes) != 0)
    return {Errc::kIo, fmt::format("[discovery] no socket: {}", std::strerror(errno))};
  DiscoveryNonce nonce;
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
    return {Errc::kIo, "[discovery] no random numbers"};
  const std::vector<std::byte> question = encode_question(nonce);
  std::vector<sockaddr_in> where;
  for (const std::string& target : targets)
    if (const auto address = parse_target(target)) where.push_back(*address);
  if (targets.empty()) where = broadcasts(port);
  size_t sent = 0;
  for (const sockaddr_in& address : where)
    sent += ::sendto(fd, question.data(), question.size(), 0, reinterpret_cast<const sockaddr*>(&address),
                     sizeof address) == static_cast<ssize_t>(question.size());
  if (sent == 0) return {Errc::kIo, "[discovery] no network to ask in"};
  std::vector<FoundCluster> found;
  const Deadline deadline(SystemClock::instance(), wait);
  while (found.size() < kFoundMax && wait_readable(fd, deadline.remaining())) {
    std::byte packet[kDiscoveryBytes + 1];
    sockaddr_in from{};
    socklen_t size = sizeof from;
    const ssize_t n = ::recvfrom(fd, packet, sizeof packet, 0, reinterpret_cast<sockaddr*>(&from), &size);
    if (n > 0)
      if (const auto answer = decode_answer(std::span(packet).first(static_cast<size_t>(n)), nonce)) {
        FoundCluster row{text_of(from, answer->port), answer->cluster, answer->node};
        // The same machine may hear the question in several networks.
        if (std::none_of(found.begin(), found.end(),
                         [&](const FoundCluster& other) { return other.address == row.address; }))
          found.push_back(std::move(row));
      }
    if (deadline.expired()) break;
  }
  return found;
}

DiscoveryAnswerer::DiscoveryAnswerer(DiscoveryAnswer answer, uint16_t port, const std::string& host)
    : answer_(std::move(answer)) {
  sockaddr_in address = ipv4(0, port);
  fd_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd_ < 0 || ::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1 ||
      ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    if (fd_ >= 0) ::close(fd_);
    fail(Errc::kIo, "[discovery] cannot listen on {}:{}: {}", host, port, std::strerror(error));
  }
  socklen_t size = sizeof address;
  ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
}

DiscoveryAnswerer::~DiscoveryAnswerer() { ::close(fd_); }

bool DiscoveryAnswerer::answer_one(Duration wait) {
  if (!wait_readable(fd_, wait)) return false;
  std::byte packet[kDiscoveryBytes + 1];
  sockaddr_in from{};
  socklen_t size = sizeof from;
  const ssize_t n = ::recvfrom(fd_, packet, sizeof packet, 0, reinterpret_cast<sockaddr*>(&from), &size);
  if (n <= 0 || from.sin_family != AF_INET || !is_private(from)) return false;
  const auto nonce = decode_question(std::span(packet).first(static_cast<size_t>(n)));
  if (!nonce) return false;
  const TimePoint now = SystemClock::instance().now();
  if (now - second_ >= std::chrono::seconds(1)) {
    second_ = now;
    answers_ = 0;
  }
  if (++answers_ > kAnswersPerSecond) return false;
  const std::vector<std::byte> reply = encode_answer(*nonce, answer_);
  return ::sendto(fd_, reply.data(), reply.size(), 0, reinterpret_cast<const sockaddr*>(&from), size) ==
         static_cast<ssize_t>(reply.size());
}

}  // namespace butterfly::cluster
