#include "model/formats/hf_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/printable.h"
#include "model/formats/hf_experts.h"

namespace butterfly::model {
namespace {

constexpr uint32_t kNumberMax = 99999;  // of layers and experts in names

// `name` against a rule's pattern; the numbers in it.
struct Match {
  const HfRule* rule = nullptr;
  size_t order = 0;  // of the rule, for sorting
  uint32_t layer = 0;
  uint32_t expert = 0;
};

std::optional<uint32_t> take_number(std::string_view& text) {
  uint32_t value = 0;
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9' && value <= kNumberMax)
    value = value * 10 + static_cast<uint32_t>(text[digits++] - '0');
  if (digits == 0 || value > kNumberMax || (digits > 1 && text[0] == '0')) return std::nullopt;
  text.remove_prefix(digits);
  return value;
}

bool matches(std::string_view name, std::string_view pattern, Match& match) {
  for (; !pattern.empty(); pattern.remove_prefix(1)) {
    if (pattern[0] == '#' || pattern[0] == '@') {
      const auto number = take_number(name);
      if (!number) return false;
      (pattern[0] == '#' ? match.layer : match.expert) = *number;
    } else {
      if (name.empty() || name[0] != pattern[0]) return false;
      name.remove_prefix(1);
    }
  }
  return name.empty();
}

// Files put the same model under different roofs: "model.layers", "language_model.model.layers", "layers".
std::string_view without_prefixes(std::string_view name) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view prefix : {"model.", "transformer.", "language_model.", "backbone."})
      if (name.starts_with(prefix)) {
        name.remove_prefix(prefix.size());
        again = true;
      }
  }
  return name;
}

// Parts of a multimodal model beside its text model.
bool other_modality(std::string_view name) {
  return name.starts_with("vision_tower.") || name.starts_with("multi_modal_projector.") ||
         name.starts_with("audio_tower.") || name.starts_with("visual.");
}

// Blocks that guess tokens further ahead: not part of the network.
bool guesses_ahead(std::string_view name) { return name.starts_with("mtp."); }

Match find_rule(const HfArchitecture& architecture, std::string_view name) {
  Match match;
  for (const auto& group : architecture.rules)
    for (const HfRule& rule : group) {
      ++match.order;
      if (!matches(name, rule.from, match)) continue;
      match.rule = &rule;
      return match;
    }
  return match;
}

std::string with_layer(std::string_view pattern, uint32_t layer) {
  std::string name(pattern);
  const size_t at = name.find('#');
  if (at != std::string::npos) name.replace(at, 1, std::to_string(layer));
  return name;
}

class Mapper {
 public:
  Mapper(const HfArchitecture& architecture, const Metadata& metadata, bool tied)
      : architecture_(architecture), metadata_(metadata), tied_(tied) {}

  void add(const std::shared_ptr<const SafetensorsFile>& shard, const SafetensorsTensor& info) {
    const std::string_view name = without_prefixes(info.name);
    if (other_modality(name) || guesses_ahead(name) || is_behind_the_last(name)) return;
    Match match = find_rule(architecture_, name);
    if (!match.rule)
      fail(Errc::kUnsupported, "{}: tensor {}: expected a name of {}, found one it has not", shard->name(),
           printable(info.name), architecture_.class_name);
    const HfSource source{shard, info};
    if (name.ends_with(kScales)) scales_.emplace(info.name, source);
    if (match.rule->values == HfValues::kIgnore) return;
    add(source, match);
    if (!has_second_rule(match.rule->values)) return;
    ++match.rule;
    ++match.order;
    add(source, match);
  }

  void add(const HfSource& source, const Match& match) {
    const std::string to = with_layer(match.rule->to, match.layer);
    const Key key{layer_rank(match), match.order, to};
    if (match.rule->values == HfValues::kExpert) {
      if (!experts_[key].emplace(match.expert, source).second) found_twice(source, to);
      return;
    }
    if (!singles_.emplace(key, std::pair(source, match.rule->values)).second) found_twice(source, to);
  }

  std::vector<NamedTensor> take() {
    settle_output();
    std::map<Key, NamedTensor> sorted;
    for (const auto& [key, single] : singles_) {
      const auto& [source, values] = single;
      sorted.emplace(key, values >= HfValues::kExpertsGate
                              ? hf_experts(key.name, source, scales_of(source), values)
                              : hf_tensor(key.name, source, values, heads(values)));
    }
    for (const auto& [key, experts] : experts_) sorted.emplace(key, stack(key.name, experts));
    std::vector<NamedTensor> tensors;
    for (auto& [key, tensor] : sorted) tensors.push_back(std::move(tensor));
    return tensors;
  }

 private:
  // A layer that guesses further ahead.
  bool is_behind_the_last(std::string_view name) const {
    constexpr std::string_view kLayers = "layers.";
    if (!architecture_.more_layers || !name.starts_with(kLayers)) return false;
    name.remove_prefix(kLayers.size());
    const auto layer = take_number(name);
    return layer && *layer >= metadata_.u32(std::string(architecture_.gguf_name) + ".block_count");
  }

  static constexpr std::string_view kScales = "_scales", kBlocks = "_blocks";
  // What belongs to "..._blocks"; null: there is none.
  const HfSource* scales_of(const HfSource& blocks) const {
    std::string name = blocks.info.name;
    if (!name.ends_with(kBlocks)) return nullptr;
    name.replace(name.size() - kBlocks.size(), kBlocks.size(), kScales);
    const auto at = scales_.find(name);
    return at == scales_.end() ? nullptr : &at->second;
  }

  // Embedding first, then block by block, the head last.
  struct Key {
    uint32_t rank;
    size_t order;
    std::string name;
    auto operator<=>(const Key&) const = default;
  };

  static uint32_t layer_rank(const Match& match) {
    if (match.rule->to.find('#') != std::string_view::npos) return match.layer + 1;
    if (match.rule->to == "output.weight") return kNumberMax + 3;
    return match.rule->to.starts_with("output") ? kNumberMax + 2 : 0;
  }

  [[noreturn]] static void found_twice(const HfSource& source, const std::string& to) {
    fail(Errc::kCorrupt, "{}: tensor {}: becomes {}, which another tensor is already", source.file->name(),
         printable(source.info.name), to);
  }

  // With one matrix for both ends the embedding is the one that stays.
  void settle_output() {
    auto at = [&](std::string_view name) {
      return std::find_if(singles_.begin(), singles_.end(),
                          [&](const auto& entry) { return entry.first.name == name; });
    };
    const auto output = at("output.weight");
    if (output == singles_.end()) return;
    if (at("token_embd.weight") == singles_.end()) {
      singles_.emplace(Key{0, 0, "token_embd.weight"}, output->second);
      if (tied_) singles_.erase(at("output.weight"));
    } else if (tied_) {
      singles_.erase(output);
    }
  }

  HfHeads heads(HfValues values) const {
    const std::string arch(architecture_.gguf_name);
    if (values == HfValues::kRopePairsQ) return {.rope = metadata_.u32(arch + ".attention.head_count")};
    if (values == HfValues::kRopePairsKv) return {.rope = kv_heads()};
    if (values == HfValues::kLatentKeys || values == HfValues::kLatentValues)
      return {.keys = metadata_.u32(arch + ".attention.key_length_mla") -
                      metadata_.u32(arch + ".rope.dimension_count"),
              .values = metadata_.u32(arch + ".attention.value_length_mla"),
              .dim = metadata_.u32(arch + ".attention.head_count")};
    if (!metadata_.has(arch + ".ssm.state_size")) return {};
    return {.keys = metadata_.u32(arch + ".ssm.group_count"),
            .values = metadata_.u32(arch + ".ssm.time_step_rank"),
            .dim = metadata_.u32(arch + ".ssm.state_size"),
            .tiled = arch != "qwen3next"};
  }

  // Of the layers that have any, which are as many in each.
  uint32_t kv_heads() const {
    const std::string key = std::string(architecture_.gguf_name) + ".attention.head_count_kv";
    if (!std::holds_alternative<MetaArray>(*metadata_.find(key))) return metadata_.u32(key);
    const std::vector<int32_t> heads = metadata_.i32s(key);
    const auto most = std::ranges::max_element(heads);
    return most == heads.end() || *most < 0 ? 0 : static_cast<uint32_t>(*most);
  }

  NamedTensor stack(const std::string& name, const std::map<uint32_t, HfSource>& experts) const {
    const uint32_t expected = metadata_.u32(std::string(architecture_.gguf_name) + ".expert_count");
    std::vector<HfSource> sources;
    for (const auto& [number, source] : experts) {
      if (number != sources.size()) break;
      sources.push_back(source);
    }
    if (sources.size() != expected || experts.size() != expected)
      fail(Errc::kCorrupt, "{}: tensor {}: expected experts 0 to {}, found {} of them",
           experts.begin()->second.file->name(), name, expected - 1, experts.size());
    return hf_stack(name, std::move(sources));
  }

  const HfArchitecture& architecture_;
  const Metadata& metadata_;
  bool tied_;
  std::map<Key, std::pair<HfSource, HfValues>> singles_;
  std::map<Key, std::map<uint32_t, HfSource>> experts_;
  std::map<std::string, HfSource> scales_;  // by name
};

}  // namespace

std::vector<NamedTensor> map_hf_tensors(const HfArchitecture& architecture, const Metadata& metadata,
                                        bool tied,
                                        std::span<const std::shared_ptr<const SafetensorsFile>> shards) {
  Mapper mapper(architecture, metadata, tied);
  for (const auto& shard : shards)
    for (const SafetensorsTensor& info : shard->tensors()) mapper.add(shard, info);
  return mapper.take();
}

}  // namespace butterfly::model
