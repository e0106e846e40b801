// Which nodes have certificates, and which of them are no longer wanted.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/identity/node_id.h"
#include "cluster/identity/state_folder.h"

namespace butterfly::cluster {

struct RosterRow {
  NodeId node;
  bool removed = false;
};

// A certificate is good for months, so whoever is taken out of the cluster is on a list that every handshake
// looks at. Kept in the state folder: complete where the authority is; other nodes hold the removed ones they
// heard of. At most kRowsMax rows. Thread-safe; changes by other processes are seen after refresh().
class Roster {
 public:
  static constexpr size_t kRowsMax = 4096;

  explicit Roster(StateFolder folder);

  std::vector<RosterRow> rows() const;
  bool is_removed(const std::string& key) const;
  // The row of a key, if it has one.
  std::optional<RosterRow> find(const std::string& key) const;

  // Adds a node, or gives it another name. kInvalidArgument when the key was removed, or a node that is not
  // removed has that name with another key; kQueueFull when there are too many. Throws Error where the disk
  // refuses.
  Status admit(const NodeId& node);
  // By key or by name. On disk when this returns; open links are the caller's to close
  // (transport/open_links.h). kNotFound when nobody is called so.
  Result<NodeId> remove(std::string_view key_or_name);
  // A key that others removed; it need not have a row here.
  Status add_removed(const NodeId& node);

  // Reads the file again. The nodes that were removed since the last time.
  std::vector<NodeId> refresh();

 private:
  using Rows = std::map<std::string, RosterRow>;  // by key
  Rows read() const;
  void write(const Rows& rows);

  const StateFolder folder_;
  mutable std::mutex mutex_;
  Rows rows_;
};

}  // namespace butterfly::cluster
