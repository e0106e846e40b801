#include "runtime/chain/chain_plan.h"

#include "base/error.h"

namespace butterfly::runtime {

std::vector<ChainPart> chain_parts(const cluster::Plan& plan, size_t layers, size_t coordinator) {
  const size_t head = layers + 1;
  std::vector<ChainPart> parts;
  size_t covered = 0, last_begin = head;
  for (const cluster::Stage& stage : plan.stages) {
    if (stage.nodes.size() != 1)
      fail(Errc::kUnsupported, "pieces {} to {} are shared by {} nodes: only whole stages can run",
           stage.begin, stage.end, stage.nodes.size());
    if (stage.begin != covered || stage.end <= stage.begin || stage.end > head + 1)
      fail(Errc::kInvalidArgument, "a stage of pieces [{}, {}), expected one that begins at {}", stage.begin,
           stage.end, covered);
    covered = stage.end;
    const bool is_end = covered == head + 1;
    if (is_end && stage.nodes[0] == coordinator) {
      last_begin = stage.begin;
    } else if (const size_t end = is_end ? head : covered; stage.begin < end) {
      parts.push_back({stage.nodes[0], model::range_of_pieces(stage.begin, end, layers)});
    }
  }
  if (covered != head + 1)
    fail(Errc::kInvalidArgument, "the plan covers {} pieces, the model has {}", covered, head + 1);
  parts.push_back({coordinator, model::range_of_pieces(last_begin, head + 1, layers)});
  return parts;
}

}  // namespace butterfly::runtime
