// Measured links, as a coordinator keeps them on disk for its next start.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/identity/state_folder.h"
#include "cluster/node/link_figures.h"

namespace butterfly::cluster {

// One pair of nodes, measured at a time of day. A node that has another address by now is measured again.
struct KnownLink {
  std::string from = {}, to = {};                  // keys
  std::string from_address = {}, to_address = {};  // where they were then
  int64_t unix_ms = 0;
  LinkFigures figures = {};
};

inline constexpr size_t kKnownLinksMax = 4096;  // rows of the file; the oldest go

// What the folder has. A file that is damaged is as good as none: links can be measured.
std::vector<KnownLink> read_known_links(const StateFolder& folder);
// Replaces it. Throws Error kIo.
void write_known_links(const StateFolder& folder, std::vector<KnownLink> links);

}  // namespace butterfly::cluster
