#include "model/adapter/adapter_modules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/near_names.h"
#include "model/adapter/adapter.h"

namespace butterfly::model {
namespace {

// "layers.3.mlp.experts.7.up_proj" as the pattern "layers.#.mlp.experts.@.up_proj", 3 and 7.
struct Pattern {
  std::string text;
  std::string number, expert;
};
Pattern pattern_of(std::string_view module) {
  Pattern pattern;
  while (!module.empty()) {
    const size_t dot = std::min(module.find('.'), module.size());
    const std::string_view part = module.substr(0, dot);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (std::string* to = pattern.number.empty() ? &pattern.number : &pattern.expert; number && to->empty()) {
      *to = part;
      pattern.text += to == &pattern.number ? '#' : '@';
    } else {
      pattern.text += part;
    }
    if (dot < module.size()) pattern.text += '.';
    module.remove_prefix(std::min(dot + 1, module.size()));
  }
  return pattern;
}

std::string with_number(std::string_view pattern, const std::string& number) {
  std::string name(pattern);
  if (const size_t at = name.find('#'); at != std::string::npos) name.replace(at, 1, number);
  return name;
}

// The first rule of the architecture that `wanted` says yes to.
template <typename Wanted>
const HfRule* find_rule(std::string_view architecture, Wanted&& wanted) {
  for (const HfArchitecture& row : hf_architectures()) {
    if (row.gguf_name != architecture) continue;
    for (const auto& rules : row.rules)
      for (const HfRule& rule : rules)
        if (wanted(rule)) return &rule;
  }
  return nullptr;
}

constexpr std::string_view kWeight = ".weight";

// Matrices that take adapters, one behind the other, with the last part of their names in both worlds.
struct Candidate {
  std::string tensor;  // "blk.0.attn_q.weight"
  std::string gguf;    // "attn_q"
  std::string module;  // "q_proj"; empty: none
  bool experts;        // stacked
};
std::vector<Candidate> candidates(const ModelFile& file, const std::set<std::string>& takes) {
  std::vector<Candidate> found;
  for (const NamedTensor& tensor : file.tensors()) {
    const std::string& name = tensor.name;
    if (!name.starts_with("blk.") || !takes.contains(name) || tensor.shape.rank() < 2) continue;
    const size_t dot = name.find('.', 4);
    const auto module = module_of(name, file.architecture());
    found.push_back({name, name.substr(dot + 1, name.size() - dot - 1 - kWeight.size()),
                     module ? std::string(module->last()) : std::string(), tensor.shape.rank() > 2});
  }
  const std::string head(kHeadTensor);
  if (takes.contains(head)) found.push_back({head, "output", "lm_head", false});
  return found;
}

// Not meant by "all": experts, which are many; routers; and the output layer.
bool is_of_all(const Candidate& it) {
  return !it.experts && it.tensor != kHeadTensor && it.gguf.find("gate_inp") == std::string::npos;
}

}  // namespace

std::optional<AdapterTarget> target_of(std::string_view module, std::string_view architecture) {
  for (std::string_view prefix : {"language_model.", "model.", "transformer."})
    if (module.starts_with(prefix)) module.remove_prefix(prefix.size());
  const Pattern pattern = pattern_of(std::string(module) + std::string(kWeight));
  const HfRule* rule =
      find_rule(architecture, [&](const HfRule& it) { return it.from == pattern.text && !it.to.empty(); });
  if (rule == nullptr) return std::nullopt;
  size_t expert = 0;
  const char* end = pattern.expert.data() + pattern.expert.size();
  if (!pattern.expert.empty() && std::from_chars(pattern.expert.data(), end, expert).ec != std::errc())
    return std::nullopt;
  return AdapterTarget{with_number(rule->to, pattern.number), rule->values, expert};
}

std::optional<AdapterModule> module_of(std::string_view tensor, std::string_view architecture) {
  const Pattern pattern = pattern_of(tensor);
  const HfRule* rule = find_rule(
      architecture, [&](const HfRule& it) { return it.to == pattern.text && it.from.ends_with(kWeight); });
  if (rule == nullptr) return std::nullopt;
  std::string name = with_number(rule->from, pattern.number);
  name.resize(name.size() - kWeight.size());
  if (name.starts_with("layers.")) name.insert(0, "model.");
  if (name.starts_with("h.")) name.insert(0, "transformer.");
  return AdapterModule{std::move(name), rule->values};
}

std::vector<std::string> adapter_targets(const ModelFile& file, std::span<const std::string> modules,
                                         const std::set<std::string>& takes) {
  const std::vector<Candidate> all = candidates(file, takes);
  std::set<std::string> chosen;
  for (const std::string& wanted : modules) {
    if (wanted == "embed_tokens" || wanted == "token_embd")
      fail(Errc::kUnsupported,
           "lora_target_modules: {}: adapters of the embedding cannot be trained; leave it out", wanted);
    bool found = false;
    for (const Candidate& it : all) {
      const bool whole = wanted == "all-linear" || wanted == "all";
      if (whole ? !is_of_all(it) : wanted != it.module && wanted != it.gguf) continue;
      chosen.insert(it.tensor);
      found = true;
    }
    if (found) continue;
    std::set<std::string> names{"all-linear"};
    for (const Candidate& it : all) names.insert(it.module.empty() ? it.gguf : it.module);
    const std::vector<std::string_view> views(names.begin(), names.end());
    fail(Errc::kInvalidArgument, "lora_target_modules: no matrix of {} is called '{}'{}; expected some of {}",
         file.path().string(), wanted, did_you_mean(wanted, views), fmt::join(names, ", "));
  }
  std::vector<std::string> targets;
  for (const Candidate& it : all)
    if (chosen.contains(it.tensor)) targets.push_back(it.tensor);
  if (targets.empty())
    fail(Errc::kInvalidArgument, "{}: has no matrix that adapters could be added to", file.path().string());
  return targets;
}

}  // namespace butterfly::model
