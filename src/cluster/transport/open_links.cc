#include "cluster/transport/open_links.h"

namespace butterfly::cluster {

void OpenLinks::enter(Link& link) {
  const std::lock_guard lock(mutex_);
  links_.emplace(link.peer().key, &link);
}

void OpenLinks::leave(Link& link) {
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = links_.equal_range(link.peer().key);
  for (auto at = begin; at != end; ++at)
    if (at->second == &link) {
      links_.erase(at);
      return;
    }
}

size_t OpenLinks::close_peer(const std::string& key) {
  const std::lock_guard lock(mutex_);  // held while closing: nobody may leave and die meanwhile
  const auto [begin, end] = links_.equal_range(key);
  size_t closed = 0;
  for (auto at = begin; at != end; ++at, ++closed) at->second->close();
  return closed;
}

size_t OpenLinks::close_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, link] : links_) link->close();
  return links_.size();
}

size_t OpenLinks::count_peer(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  return links_.count(key);
}

size_t OpenLinks::count() const {
  const std::lock_guard lock(mutex_);
  return links_.size();
}

}  // namespace butterfly::cluster
