// Finds clusters on the local network. What answers is a suggestion and nothing more: anyone can answer, so a
// found address is used only with a token, whose hash the cluster's certificate must match.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/node/addresses.h"

namespace butterfly::cluster {

// A question is as long as the longest answer, so that nobody can use coordinators to flood others.
inline constexpr size_t kDiscoveryBytes = 192;
using DiscoveryNonce = std::array<std::byte, 16>;

struct DiscoveryAnswer {
  std::string cluster, node;  // names, up to 63 bytes each
  uint16_t port = 0;          // of links, on the machine that answers
};

std::vector<std::byte> encode_question(const DiscoveryNonce& nonce);
std::vector<std::byte> encode_answer(const DiscoveryNonce& nonce, const DiscoveryAnswer& answer);
// Nothing for any other packet.
std::optional<DiscoveryNonce> decode_question(std::span<const std::byte> packet);
std::optional<DiscoveryAnswer> decode_answer(std::span<const std::byte> packet, const DiscoveryNonce& nonce);

struct FoundCluster {
  std::string address;  // "10.0.0.5:7741"
  std::string cluster, node;
};

// Asks every network of this machine (or only `targets`, as "host:port" of IPv4) and collects answers for
// `wait`, at most 64 of them. kIo when nothing can be sent.
Result<std::vector<FoundCluster>> discover(Duration wait, uint16_t port = kClusterPort,
                                           const std::vector<std::string>& targets = {});

// Answers questions from private networks, at most 20 a second. One thread.
class DiscoveryAnswerer {
 public:
  // On all interfaces, or on `host` only; port 0 chooses one. Throws Error kIo.
  explicit DiscoveryAnswerer(DiscoveryAnswer answer, uint16_t port = kClusterPort,
                             const std::string& host = "0.0.0.0");
  ~DiscoveryAnswerer();
  DiscoveryAnswerer(const DiscoveryAnswerer&) = delete;
  DiscoveryAnswerer& operator=(const DiscoveryAnswerer&) = delete;

  uint16_t port() const { return port_; }
  // Waits up to `wait` for a packet and answers it if it is a question; says whether it did.
  bool answer_one(Duration wait);

 private:
  const DiscoveryAnswer answer_;
  int fd_ = -1;
  uint16_t port_ = 0;
  TimePoint second_{};
  int answers_ = 0;  // since then
};

}  // namespace butterfly::cluster
