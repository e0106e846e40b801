#include "cluster/partition/ordered_groups.h"

#include <algorithm>
#include <numeric>

namespace butterfly::cluster {

std::vector<std::vector<size_t>> ordered_groups(const Problem& problem) {
  const size_t nodes = problem.nodes();
  const size_t size = std::min({problem.options().group_size_wanted, problem.list().share_units, nodes});
  std::vector<std::vector<size_t>> groups;
  for (size_t begin = 0; begin < nodes;) {
    const size_t end = begin + (begin == 0 && nodes % size != 0 ? nodes % size : size);
    std::vector<size_t>& group = groups.emplace_back(end - begin);
    std::iota(group.begin(), group.end(), begin);
    begin = end;
  }
  return groups;
}

}  // namespace butterfly::cluster
