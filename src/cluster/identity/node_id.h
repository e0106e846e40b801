// Who a node is: a name that people read and a fingerprint that nobody else can have.
#pragma once
#include <compare>
#include <string>

namespace butterfly::cluster {

// `key` is the SHA-256 of the node's public key, 64 hex digits; equality is equality of keys. `name` is what
// the certificate calls the node.
struct NodeId {
  std::string key;
  std::string name;

  bool operator==(const NodeId& other) const { return key == other.key; }
  std::strong_ordering operator<=>(const NodeId& other) const { return key <=> other.key; }
};

}  // namespace butterfly::cluster
