#include "model/grammar/schema_sets.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "model/grammar/compile_budget.h"
#include "model/grammar/conjunction.h"
#include "model/grammar/limits.h"
#include "model/grammar/number_dfa.h"
#include "model/grammar/schema_loader.h"

namespace butterfly::model::grammar {

namespace {

constexpr int kNestedQuestionsMax = 16;  // whether two schemas overlap may lead to the same about others

}  // namespace

SchemaSets::SchemaSets(SchemaGraph graph) : graph_(std::move(graph)) {
  const CompileBudget budget;
  about_schema([this] {
    root_ = intern({literal(graph_.root)});
    for (SetId id = 0; id < sets_.size(); ++id) expand(id);  // expanding adds more
    find_productive();
    if (!sets_[root_]->productive) fail(Errc::kInvalidArgument, "schema: no value satisfies it");
    finish_shapes();
  });
  // Shapes keep what they need of all this.
  graph_ = {};
  ids_ = {};
  literals_ = {};
  disjoint_ = {};
  any_nodes_ = {};
  dfas_ = {};
  kept_ = {};
}

size_t SchemaSets::bytes() const {
  std::set<const Dfa*> dfas;
  size_t sum = 0;
  const auto add = [&](const DfaPtr& dfa) {
    if (dfas.insert(dfa.get()).second)
      sum += sizeof(Dfa) + dfa->next.size() * 4 + dfa->label.size() * 4 + dfa->sink.size();
  };
  for (const auto& set : sets_) {
    sum += sizeof(ValueSet);
    for (const StringShape& shape : set->strings) add(shape.dfa);
    for (const DfaPtr& dfa : set->numbers) add(dfa);
    for (const ArrayShape& shape : set->arrays) {
      sum += sizeof(shape) + shape.rest.size() * sizeof(ChildOption);
      for (const auto& options : shape.prefix) sum += sizeof(options) + options.size() * sizeof(ChildOption);
    }
    for (const ObjectShape& shape : set->objects) {
      add(shape.keys);
      sum += sizeof(shape) + shape.reach.size() * 8 + shape.many_left.size() * 4 +
             (shape.class_of_name.size() + shape.required.size()) * 4;
      for (const NameClass& c : shape.classes) sum += sizeof(c) + c.options.size() * sizeof(ChildOption);
    }
  }
  return sum;
}

SetId SchemaSets::intern(LiteralSet literals) {
  CompileBudget::spend(1 + literals.size());
  std::sort(literals.begin(), literals.end());
  literals.erase(std::unique(literals.begin(), literals.end()), literals.end());
  const auto [found, is_new] = ids_.try_emplace(std::move(literals), static_cast<SetId>(sets_.size()));
  if (is_new) {
    if (sets_.size() >= kLiteralSetsMax)
      fail(Errc::kOutOfMemory, "schema: more than {} combinations of subschemas", kLiteralSetsMax);
    literals_.push_back(found->first);
    sets_.push_back(nullptr);
  }
  return found->second;
}

void SchemaSets::expand(SetId id) {
  if (sets_[id]) return;
  auto made = std::make_unique<ValueSet>();
  const LiteralSet literals = literals_[id];
  const std::string place = literals.empty() ? "" : graph_.nodes[literals[0] / 2].pointer;
  try {
    ShapeBuilder builder(*this, *made);
    Expander(*this, [&](const Conjunction& c) { builder.add(c); }).run(literals);
  } catch (const Error& error) {
    const std::string_view what = error.what();
    if (what.starts_with("schema")) throw;
    throw Error(error.code(), fmt::format("schema at '{}': {}", place, what));
  }
  // Several ways to the same scalar are one.
  const auto same = [](const StringShape& a, const StringShape& b) {
    return a.dfa == b.dfa && a.min_length == b.min_length && a.max_length == b.max_length;
  };
  std::vector<StringShape> strings;
  for (const StringShape& shape : made->strings)
    if (std::none_of(strings.begin(), strings.end(), [&](const StringShape& s) { return same(s, shape); }))
      strings.push_back(shape);
  made->strings = std::move(strings);
  std::sort(made->numbers.begin(), made->numbers.end());
  made->numbers.erase(std::unique(made->numbers.begin(), made->numbers.end()), made->numbers.end());
  if (!sets_[id]) sets_[id] = std::move(made);  // a nested call may have been first
}

bool SchemaSets::maybe(SetId id, int depth) {
  if (depth == 0) return true;
  CompileBudget::spend(1);
  expand(id);
  const ValueSet& set = *sets_[id];
  if (set.simple || !set.strings.empty() || !set.numbers.empty()) return true;
  const auto any = [&](const std::vector<ChildOption>& options) {
    return std::any_of(options.begin(), options.end(),
                       [&](const ChildOption& option) { return maybe(option.child, depth - 1); });
  };
  // Indices, not references: expanding a child adds to the list of sets.
  for (const ArrayShape& shape : set.arrays) {
    bool good = true;
    for (uint64_t i = 0; good && i < std::min<uint64_t>(shape.min_items, 8); ++i) good = any(shape.at(i));
    if (good) return true;
  }
  for (const ObjectShape& shape : set.objects) {
    bool good = true;
    for (const uint32_t name : shape.required) {
      const uint32_t c = shape.class_of_name[name];
      good = good && c < shape.classes.size() && any(shape.classes[c].options);
    }
    if (good) return true;
  }
  return false;
}

bool SchemaSets::disjoint(NodeId a, NodeId b) {
  const auto key = std::minmax(a, b);
  const auto found = disjoint_.find(key);
  if (found != disjoint_.end()) return found->second;
  disjoint_[key] = false;  // the answer while it is being looked for
  // A pair that is too much work is taken to overlap: the negation then says more than needed, never less.
  if (nested_ >= kNestedQuestionsMax) return false;
  ++nested_;
  bool result = false;
  try {
    result = !maybe(intern({literal(a), literal(b)}), 3);
  } catch (const Error& error) {
    --nested_;
    if (error.code() != Errc::kUnsupported) throw;
    return false;
  }
  --nested_;
  return disjoint_[key] = result;
}

NodeId SchemaSets::any_node(const std::vector<NodeId>& options) {
  const auto [found, is_new] = any_nodes_.try_emplace(options, static_cast<NodeId>(graph_.nodes.size()));
  if (is_new) {
    SchemaNode& node = graph_.nodes.emplace_back();
    node.pointer = graph_.nodes[options[0]].pointer;
    node.any_of = {options};
  }
  return found->second;
}

DfaPtr SchemaSets::text_dfa(const LiteralSet& literals) {
  // Only strings: names that refer to the object they stand in must not expand it again.
  ValueSet set;
  ShapeBuilder builder(*this, set);
  Expander(*this, [&](const Conjunction& c) { builder.add(c); }).run(literals, kString);
  std::vector<DfaPtr> keep;
  std::vector<DfaFactor> factors{{&any_text(), true}};
  for (const StringShape& shape : set.strings) {
    keep.push_back(shape.free ? std::make_shared<const Dfa>(length_dfa(shape.min_length, shape.max_length))
                              : shape.dfa);
    factors.push_back({keep.back().get(), false});
  }
  return std::make_shared<const Dfa>(product(factors, [](std::span<const uint32_t> labels) {
    return labels[0] && std::any_of(labels.begin() + 1, labels.end(), [](uint32_t l) { return l != 0; }) ? 1u
                                                                                                         : 0u;
  }));
}

DfaPtr SchemaSets::conjunction_of(const std::vector<std::pair<DfaPtr, bool>>& terms, const Dfa& all,
                                  uint64_t min_length, uint64_t max_length) {
  const bool lengths = min_length > 0 || max_length != kUnbounded;
  if (terms.empty() && !lengths) return std::shared_ptr<const Dfa>(&all, [](auto*) {});
  if (terms.size() == 1 && !terms[0].second && !lengths) return terms[0].first;
  std::vector<uint64_t> key{min_length, max_length, reinterpret_cast<uintptr_t>(&all)};
  for (const auto& [dfa, negative] : terms)
    key.push_back(reinterpret_cast<uintptr_t>(dfa.get()) | (negative ? 1 : 0));
  std::sort(key.begin() + 3, key.end());
  key.erase(std::unique(key.begin() + 3, key.end()), key.end());
  DfaPtr& made = dfas_[key];
  if (made) return made;
  std::vector<DfaFactor> factors{{&all, true}};
  std::vector<bool> negated{false};
  for (const auto& [dfa, negative] : terms) {
    kept_.push_back(dfa);
    factors.push_back({dfa.get(), !negative});
    negated.push_back(negative);
  }
  if (lengths) {
    kept_.push_back(std::make_shared<const Dfa>(length_dfa(min_length, max_length)));
    factors.push_back({kept_.back().get(), true});
    negated.push_back(false);
  }
  return made = std::make_shared<const Dfa>(product(factors, [&](std::span<const uint32_t> labels) {
           for (size_t i = 0; i < labels.size(); ++i)
             if ((labels[i] == 0) != negated[i]) return 0u;
           return 1u;
         }));
}

}  // namespace butterfly::model::grammar
