// The open links of a node, by peer: so that whoever is removed from the cluster is cut off at once.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/transport/link.h"

namespace butterfly::cluster {

// Links enter when they open and leave before they die. Thread-safe.
class OpenLinks {
 public:
  void enter(Link& link);
  void leave(Link& link);

  // Closes the links to the node with this key, and says how many.
  size_t close_peer(const std::string& key);
  size_t close_all();
  size_t count() const;
  size_t count_peer(const std::string& key) const;

 private:
  mutable std::mutex mutex_;
  std::multimap<std::string, Link*> links_;  // by the peer's key
};

}  // namespace butterfly::cluster
