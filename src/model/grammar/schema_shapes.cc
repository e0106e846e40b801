// Conjunctions to shapes.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "model/grammar/conjunction.h"
#include "model/grammar/limits.h"
#include "model/grammar/number_dfa.h"

namespace butterfly::model::grammar {

namespace {

constexpr size_t kConditionsMax = 4;      // per container: each doubles the options
constexpr size_t kPrefixItemsMax = 4096;  // that have a schema of their own

using Exists = Conjunction::ExistsProperty;

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

void ShapeBuilder::add_object(const Conjunction& c) {
  ObjectShape shape;
  shape.min_properties = c.min_properties;
  shape.max_properties = c.max_properties;
  shape.ordered = c.ordered;
  shape.conditions.assign(c.exists.size(), {1, kUnbounded});
  if (c.exists.size() > kConditionsMax)
    fail(Errc::kUnsupported, "schema: more than {} conditions under 'not' for one object", kConditionsMax);

  // Every name that is mentioned, in the order of the schema.
  std::vector<std::string> names;
  std::map<std::string, uint32_t> index_of;
  const auto mention = [&](const std::string& name) {
    const auto [found, is_new] = index_of.try_emplace(name, static_cast<uint32_t>(names.size()));
    if (is_new) names.push_back(name);
    return found->second;
  };
  for (const Conjunction::Member& member : c.object_nodes)
    for (const auto& property : sets_.graph_.nodes[member.node].properties) mention(property.name);
  for (const Exists& exists : c.exists)
    for (const auto& property : sets_.graph_.nodes[exists.node].properties) mention(property.name);
  for (const std::string& name : c.required) {
    const uint32_t index = mention(name);
    if (std::find(shape.required.begin(), shape.required.end(), index) == shape.required.end())
      shape.required.push_back(index);
  }
  std::vector<bool> forbidden(names.size(), false);
  for (const std::string& name : c.forbidden) {
    forbidden.resize(std::max<size_t>(names.size(), mention(name) + 1u), false);
    forbidden[mention(name)] = true;
  }
  for (const auto& [name, value] : c.property_at) mention(name);
  forbidden.resize(names.size(), false);

  // What tells names apart: which one it is, which patterns it matches, whether it is a good name.
  std::vector<DfaPtr> keep;
  std::vector<DfaFactor> factors{{&any_text(), true}};
  const auto factor = [&](DfaPtr dfa, bool required) {
    keep.push_back(dfa);
    factors.push_back({dfa.get(), required});
    return factors.size() - 1;
  };
  const size_t literals = factor(std::make_shared<const Dfa>(literal_dfa(names)), false);
  std::map<std::pair<NodeId, size_t>, size_t> pattern_factor;
  const auto add_patterns = [&](NodeId id) {
    const SchemaNode& node = sets_.graph_.nodes[id];
    for (size_t i = 0; i < node.patterns.size(); ++i)
      if (!pattern_factor.count({id, i})) pattern_factor[{id, i}] = factor(node.patterns[i].names, false);
  };
  for (const Conjunction::Member& member : c.object_nodes) add_patterns(member.node);
  for (const Exists& exists : c.exists)
    if (exists.kind != Exists::Kind::kBadName) add_patterns(exists.node);
  if (!c.names.empty()) factor(sets_.text_dfa(LiteralSet(c.names)), true);
  std::vector<size_t> bad_name(c.exists.size(), 0);
  for (size_t i = 0; i < c.exists.size(); ++i)
    if (c.exists[i].kind == Exists::Kind::kBadName)
      bad_name[i] = factor(sets_.text_dfa({c.exists[i].value}), false);

  const auto has_property = [&](const SchemaNode& node, uint32_t name) -> const SchemaNode::Property* {
    if (name == 0) return nullptr;
    for (const auto& property : node.properties)
      if (property.name == names[name - 1]) return &property;
    return nullptr;
  };
  const auto is_additional = [&](NodeId id, std::span<const uint32_t> labels) {
    const SchemaNode& node = sets_.graph_.nodes[id];
    if (has_property(node, labels[literals])) return false;
    for (size_t i = 0; i < node.patterns.size(); ++i)
      if (labels[pattern_factor.at({id, i})] != 0) return false;
    return true;
  };
  std::map<std::vector<uint32_t>, uint32_t> labels_of_class;
  shape.class_of_name.assign(names.size(), 0);
  const auto classify = [&](std::span<const uint32_t> labels) -> uint32_t {
    // any_text accepts, and good names do; the others only tell apart.
    for (size_t i = 0; i < factors.size(); ++i)
      if (factors[i].required && labels[i] == 0) return 0;
    const auto [found, is_new] = labels_of_class.try_emplace({labels.begin(), labels.end()}, 0);
    if (!is_new) return found->second;
    const uint32_t name = labels[literals];
    if (name != 0 && forbidden[name - 1]) return 0;
    LiteralSet base;
    uint32_t evaluated = c.all_properties;  // scopes
    for (const auto& [id, scopes] : c.object_nodes) {
      const SchemaNode& node = sets_.graph_.nodes[id];
      if (node.additional || !is_additional(id, labels)) evaluated |= scopes;
      if (const auto* property = has_property(node, name)) base.push_back(literal(property->node));
      for (size_t i = 0; i < node.patterns.size(); ++i)
        if (labels[pattern_factor.at({id, i})] != 0) base.push_back(literal(node.patterns[i].node));
      if (node.additional && is_additional(id, labels)) base.push_back(literal(*node.additional));
    }
    for (size_t k = 0; k < c.scopes.size(); ++k)
      if (const auto rule = sets_.graph_.nodes[c.scopes[k]].unevaluated_properties;
          rule && !(evaluated >> k & 1))
        base.push_back(literal(*rule));
    for (const auto& [at, value] : c.property_at)
      if (name != 0 && names[name - 1] == at) base.push_back(value);
    std::vector<std::pair<uint32_t, Literal>> counts;
    uint32_t always = 0;
    for (uint32_t i = 0; i < c.exists.size(); ++i) {
      const Exists& exists = c.exists[i];
      if (exists.kind == Exists::Kind::kBadName) {
        if (labels[bad_name[i]] == 0) always |= 1u << i;
      } else if (exists.kind == Exists::Kind::kPattern
                     ? labels[pattern_factor.at({exists.node, exists.pattern})] != 0
                     : is_additional(exists.node, labels)) {
        counts.emplace_back(i, exists.value);
      }
    }
    NameClass made{name == 0 ? NameClass::kMany : name - 1, options(base, counts, shape.conditions)};
    for (ChildOption& option : made.options) option.gains |= always;
    if (made.options.empty()) return 0;
    shape.classes.push_back(std::move(made));
    found->second = static_cast<uint32_t>(shape.classes.size());
    if (name != 0) shape.class_of_name[name - 1] = found->second;
    return found->second;
  };
  shape.keys = std::make_shared<const Dfa>(product(factors, classify));
  for (uint32_t& of : shape.class_of_name)
    of = of == 0 ? static_cast<uint32_t>(shape.classes.size()) : of - 1;
  to_.objects.push_back(std::move(shape));
}

}  // namespace butterfly::model::grammar
