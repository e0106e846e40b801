// What a node that has joined a cluster knows of itself, kept in its state folder for `status` and `doctor`:
// they are other processes, and the coordinator may be gone.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "cluster/identity/state_folder.h"
#include "runtime/nodes/node_shell.h"

namespace butterfly::cli {

struct NodeView {
  std::string name, address, coordinator;
  std::string state;            // "joined", "connecting", "waiting", "given up"
  std::string phase;            // "idle", "preparing", "loading", "ready", "running"
  std::string problem;          // with the coordinator, in words; empty: none
  std::string notice;           // of the coordinator; empty: none
  uint32_t begin = 0, end = 0;  // pieces; equal: none
  int64_t pid = 0;
  int64_t unix_ms = 0;  // when it was so

  bool same(const NodeView& other) const;  // but for the time
};

// As the running node says it; pid and time are those of now.
NodeView node_view(const runtime::NodeShell::View& view, const std::string& name, const std::string& address,
                   const std::string& coordinator);

void write_node_view(const cluster::StateFolder& folder, const NodeView& view);
// Nothing where no node has run, or what is there cannot be read.
std::optional<NodeView> read_node_view(const cluster::StateFolder& folder);
// Whether the process that wrote it still lives.
bool runs(const NodeView& view);

std::string to_json(const NodeView& view);
// For people, a few lines. `why`: the coordinator could not be asked.
std::string view_text(const NodeView& view, const std::string& why);

}  // namespace butterfly::cli
