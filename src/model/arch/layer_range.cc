#include "model/arch/layer_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/error.h"

namespace butterfly::model {
namespace {

constexpr std::string_view kBlock = "blk.";

}  // namespace

std::string to_string(const LayerRange& range, size_t layers) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (range.has_embedding()) add("embedding");
  if (range.blocks() == 1) add(fmt::format("block {}", range.begin));
  if (range.blocks() > 1) add(fmt::format("blocks {} to {}", range.begin, range.end - 1));
  if (range.has_head(layers)) add("head");
  return text.empty() ? "nothing" : text;
}

void check_range(const LayerRange& range, size_t layers) {
  if (range.begin > range.end || range.end > layers)
    fail(Errc::kInvalidArgument, "blocks [{}, {}): the model has {}", range.begin, range.end, layers);
  if (range.blocks() == 0 && !range.has_embedding() && !range.has_head(layers))
    fail(Errc::kInvalidArgument, "blocks [{}, {}) without embedding or head: nothing to load", range.begin,
         range.end);
}

bool may_cut(size_t block, std::span<const LayerState> states) {
  return std::none_of(
      states.begin() + static_cast<ptrdiff_t>(std::min(block, states.size())), states.end(),
      [&](const LayerState& state) { return state.kind == StateKind::kShared && state.source < block; });
}

void check_sources(const LayerRange& range, std::span<const LayerState> states) {
  for (size_t i = range.begin; i < range.end; ++i)
    if (states[i].kind == StateKind::kShared && states[i].source < range.begin)
      fail(Errc::kInvalidArgument,
           "blocks [{}, {}): block {} reads keys of block {}, so that one node must have both", range.begin,
           range.end, i, states[i].source);
}

LayerRange range_of_pieces(size_t begin, size_t end, size_t layers) {
  BF_CHECK(begin < end && end <= layers + 2) << "pieces " << begin << " to " << end;
  return {.begin = std::max<size_t>(begin, 1) - 1,
          .end = std::min(end, layers + 1) - 1,
          .without_embedding = begin > 0,
          .without_head = end < layers + 2};
}

bool range_needs(const LayerRange& range, size_t layers, const ModelFile& file, std::string_view tensor) {
  if (tensor.starts_with(kBlock)) {
    size_t block = 0;
    const auto [rest, error] =
        std::from_chars(tensor.data() + kBlock.size(), tensor.data() + tensor.size(), block);
    const bool numbered = error == std::errc() && rest != tensor.data() + tensor.size() && *rest == '.';
    return !numbered || (block >= range.begin && block < range.end);
  }
  if (tensor.starts_with("token_embd."))
    return range.has_embedding() || (range.has_head(layers) && !file.has("output.weight"));
  for (const std::string_view first : {"position_embd.", "per_layer_"})
    if (tensor.starts_with(first)) return range.has_embedding();
  // LFM2 calls its last norm by the name of the first.
  for (const std::string_view head : {"output.", "output_norm.", "token_embd_norm."})
    if (tensor.starts_with(head)) return range.has_head(layers);
  return true;
}

std::vector<std::string> tensors_of_range(const LayerRange& range, size_t layers, const ModelFile& file) {
  std::vector<std::string> names;
  for (const NamedTensor& tensor : file.tensors())
    if (range_needs(range, layers, file, tensor.name)) names.push_back(tensor.name);
  return names;
}

}  // namespace butterfly::model
