#include "cluster/node/addresses.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>

namespace butterfly::cluster {
namespace {

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    ::inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) return {};
    ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
  }
  return text;
}

}  // namespace

std::vector<std::string> own_addresses() {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(raw, ::freeifaddrs);
  std::vector<std::string> found;
  for (const ifaddrs* at = raw; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0 || (at->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    std::string text = text_of(at->ifa_addr);
    if (!text.empty() && std::find(found.begin(), found.end(), text) == found.end())
      found.push_back(std::move(text));
  }
  std::stable_partition(found.begin(), found.end(),
                        [](const std::string& text) { return text.find(':') == std::string::npos; });
  return found;
}

std::string with_port(const std::string& host, uint16_t port) {
  const auto colons = std::count(host.begin(), host.end(), ':');
  if (host.starts_with('[')) return host.ends_with(']') ? fmt::format("{}:{}", host, port) : host;
  if (colons > 1) return fmt::format("[{}]:{}", host, port);
  return colons == 1 ? host : fmt::format("{}:{}", host, port);
}

}  // namespace butterfly::cluster
