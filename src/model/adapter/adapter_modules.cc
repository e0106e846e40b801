#include "model/adapter/adapter_modules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/near_names.h"

namespace butterfly::model {
namespace {

// "layers.3.self_attn.q_proj" as the pattern "layers.#.self_attn.q_proj" and 3.
struct Pattern {
  std::string text;
  std::string number;
};
Pattern pattern_of(std::string_view module) {
  Pattern pattern;
  while (!module.empty()) {
    const size_t dot = std::min(module.find('.'), module.size());
    const std::string_view part = module.substr(0, dot);
    const bool number = part.find_first_not_of("0123456789") == std::string_view::npos;
    if (number && pattern.number.empty()) {
      pattern.number = part;
      pattern.text += '#';
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

// Norms by group have two sides too, and are no matrices that anything is multiplied with.
bool is_norm(std::string_view tensor) { return tensor.ends_with("norm.weight"); }

// Matrices of blocks, one behind the other, with the last part of their names in both worlds.
struct Candidate {
  std::string tensor;  // "blk.0.attn_q.weight"
  std::string gguf;    // "attn_q"
  std::string module;  // "q_proj"; empty: none
  bool experts;        // stacked
};
std::vector<Candidate> candidates(const ModelFile& file) {
  std::vector<Candidate> found;
  for (const NamedTensor& tensor : file.tensors()) {
    const std::string& name = tensor.name;
    if (!name.starts_with("blk.") || !name.ends_with(kWeight) || tensor.shape.rank() < 2 || is_norm(name))
      continue;
    const size_t dot = name.find('.', 4);
    if (dot == std::string::npos || dot + 1 + kWeight.size() > name.size()) continue;
    const auto module = module_of(name, file.architecture());
    found.push_back({name, name.substr(dot + 1, name.size() - dot - 1 - kWeight.size()),
                     module ? std::string(module->last()) : std::string(), tensor.shape.rank() > 2});
  }
  return found;
}

// Not meant by "all": routers, whose choice has no slope, and convolutions.
bool is_of_all(const Candidate& it) {
  return !it.experts && it.gguf.find("gate_inp") == std::string::npos &&
         it.gguf.find("conv") == std::string::npos;
}

}  // namespace

std::optional<AdapterTarget> target_of(std::string_view module, std::string_view architecture) {
  for (std::string_view prefix : {"language_model.", "model.", "transformer."})
    if (module.starts_with(prefix)) module.remove_prefix(prefix.size());
  const Pattern pattern = pattern_of(std::string(module) + std::string(kWeight));
  const HfRule* rule =
      find_rule(architecture, [&](const HfRule& it) { return it.from == pattern.text && !it.to.empty(); });
  if (rule == nullptr) return std::nullopt;
  return AdapterTarget{with_number(rule->to, pattern.number), rule->values};
}

std::optional<AdapterModule> module_of(std::string_view tensor, std::string_view architecture) {
  const Pattern pattern = pattern_of(tensor);
  const HfRule* rule = find_rule(architecture, [&](const HfRule& it) {
    return it.to == pattern.text && it.from.ends_with(kWeight) && it.from.find('@') == std::string_view::npos;
  });
  if (rule == nullptr) return std::nullopt;
  std::string name = with_number(rule->from, pattern.number);
  name.resize(name.size() - kWeight.size());
  if (name.starts_with("layers.")) name.insert(0, "model.");
  if (name.starts_with("h.")) name.insert(0, "transformer.");
  return AdapterModule{std::move(name), rule->values};
}

std::vector<std::string> adapter_targets(const ModelFile& file, std::span<const std::string> modules) {
  const std::vector<Candidate> all = candidates(file);
  std::set<std::string> chosen;
  for (const std::string& wanted : modules) {
    if (wanted == "lm_head" || wanted == "embed_tokens" || wanted == "output" || wanted == "token_embd")
      fail(Errc::kUnsupported,
           "lora_target_modules: {}: adapters of embedding and output layer cannot be trained; leave it out",
           wanted);
    bool found = false;
    for (const Candidate& it : all) {
      const bool whole = wanted == "all-linear" || wanted == "all";
      if (whole ? !is_of_all(it) : wanted != it.module && wanted != it.gguf) continue;
      if (it.experts)
        fail(Errc::kUnsupported,
             "lora_target_modules: {}: {} holds the matrices of all experts; adapters of experts cannot be "
             "trained, those of attention can",
             wanted, it.tensor);
      chosen.insert(it.tensor);
      found = true;
    }
    if (found) continue;
    std::set<std::string> names{"all-linear"};
    for (const Candidate& it : all)
      if (!it.experts) names.insert(it.module.empty() ? it.gguf : it.module);
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
