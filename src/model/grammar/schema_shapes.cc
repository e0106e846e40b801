// Conjunctions to shapes; those of objects are in schema_objects.cc.
#include <algorithm>

#include "base/error.h"
#include "model/grammar/compile_budget.h"
#include "model/grammar/conjunction.h"
#include "model/grammar/limits.h"
#include "model/grammar/number_dfa.h"

namespace butterfly::model::grammar {

namespace {

constexpr size_t kConditionsMax = 4;      // per array: each doubles the options
constexpr size_t kPrefixItemsMax = 4096;  // that have a schema of their own

}  // namespace

void ShapeBuilder::add(const Conjunction& c) {
  to_.simple |= c.types & (kNull | kBoolean);
  if (c.types & kString) {
    StringShape shape;
    if (c.texts.empty()) {
      shape.dfa = std::shared_ptr<const Dfa>(&any_text(), [](auto*) {});
      shape.free = true;
      shape.min_length = c.min_length;
      shape.max_length = c.max_length;
    } else {
      shape.dfa = sets_.conjunction_of(c.texts, any_text(), c.min_length, c.max_length);
    }
    if (!shape.dfa->empty()) to_.strings.push_back(std::move(shape));
  }
  if (c.types & kNumber) {
    DfaPtr dfa = sets_.conjunction_of(c.numbers, any_number(), 0, kUnbounded);
    if (!dfa->empty()) to_.numbers.push_back(std::move(dfa));
  }
  if (c.types & kArray) add_array(c);
  if (c.types & kObject) add_object(c);
}

std::vector<ChildOption> ShapeBuilder::options(const LiteralSet& base,
                                               const std::vector<std::pair<uint32_t, Literal>>& counts,
                                               const std::vector<CountCondition>& conditions) {
  std::vector<ChildOption> out;
  for (uint32_t chosen = 0; chosen < (1u << counts.size()); ++chosen) {
    LiteralSet literals = base;
    uint32_t gains = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      const auto [bit, value] = counts[i];
      if (chosen >> i & 1) {
        literals.push_back(value);
        gains |= 1u << bit;
      } else if (conditions[bit].max != kUnbounded) {
        literals.push_back(value ^ 1);  // a child that could count must not stay uncounted
      }
    }
    CompileBudget::spend(1 + literals.size());
    const bool impossible = std::any_of(literals.begin(), literals.end(), [&](Literal l) {
      return !(l & 1) && sets_.graph_.nodes[l / 2].never;
    });
    if (!impossible) out.push_back({sets_.intern(std::move(literals)), gains});
  }
  return out;
}

void ShapeBuilder::add_array(const Conjunction& c) {
  ArrayShape shape;
  shape.min_items = c.min_items;
  shape.max_items = c.max_items;
  shape.unique = c.unique && c.max_items > 1;
  std::vector<Conjunction::Contains> counted;
  size_t prefix = 0;
  for (const Conjunction::Contains& contains : c.contains) {
    if (contains.min == 0 && contains.max == kUnbounded) continue;
    if (contains.min > contains.max) return;
    counted.push_back(contains);
    shape.conditions.push_back({contains.min, contains.max});
    prefix = std::max<size_t>(prefix, contains.from);
  }
  if (counted.size() > kConditionsMax)
    fail(Errc::kUnsupported, "schema: more than {} 'contains' for one array", kConditionsMax);
  for (const Conjunction::Member& member : c.array_nodes)
    prefix = std::max(prefix, sets_.graph_.nodes[member.node].prefix_items.size());
  for (const auto& [index, item] : c.item_at) prefix = std::max<size_t>(prefix, index + 1);
  if (prefix > kPrefixItemsMax)
    fail(Errc::kOutOfMemory, "schema: more than {} items with a schema of their own", kPrefixItemsMax);

  for (size_t i = 0; i <= prefix; ++i) {
    CompileBudget::spend(1 + c.array_nodes.size() + c.item_at.size() + c.every_item.size());
    LiteralSet base(c.every_item);
    for (const Conjunction::Member& member : c.array_nodes) {
      const SchemaNode& node = sets_.graph_.nodes[member.node];
      if (i < node.prefix_items.size())
        base.push_back(literal(node.prefix_items[i]));
      else if (node.items)
        base.push_back(literal(*node.items));
    }
    for (const auto& [index, item] : c.item_at)
      if (index == i) base.push_back(item);
    add_unevaluated_item(c, i, base);
    std::vector<std::pair<uint32_t, Literal>> counts;
    for (size_t k = 0; k < counted.size(); ++k)
      if (i >= counted[k].from) counts.emplace_back(static_cast<uint32_t>(k), counted[k].item);
    auto made = options(base, counts, shape.conditions);
    if (i < prefix)
      shape.prefix.push_back(std::move(made));
    else
      shape.rest = std::move(made);
  }
  to_.arrays.push_back(std::move(shape));
}

void ShapeBuilder::add_unevaluated_item(const Conjunction& c, size_t index, LiteralSet& literals) {
  for (size_t k = 0; k < c.scopes.size(); ++k) {
    const auto rule = sets_.graph_.nodes[c.scopes[k]].unevaluated_items;
    bool evaluated = !rule || (c.all_items >> k & 1);
    for (const Conjunction::Member& member : c.array_nodes) {
      const SchemaNode& node = sets_.graph_.nodes[member.node];
      if (member.scopes >> k & 1) evaluated = evaluated || node.items || index < node.prefix_items.size();
    }
    if (evaluated) continue;
    std::vector<NodeId> options{*rule};
    for (const Conjunction::Member& member : c.contained)
      if (member.scopes >> k & 1) options.push_back(member.node);
    literals.push_back(literal(options.size() == 1 ? *rule : sets_.any_node(options)));
  }
}

}  // namespace butterfly::model::grammar
