// Literals to conjunctions: the disjunctive normal form of a set.
#include <algorithm>

#include "base/error.h"
#include "model/grammar/compile_budget.h"
#include "model/grammar/conjunction.h"
#include "model/grammar/limits.h"
#include "model/grammar/number_dfa.h"

namespace butterfly::model::grammar {

namespace {

constexpr int kChoicesMax = 400;  // on the way to one conjunction; bounds the recursion
using Branch = Conjunction::Branch;

Branch push(std::vector<Literal> literals, uint32_t scopes = 0) {
  return [literals = std::move(literals), scopes](Conjunction& c) {
    for (const Literal l : literals) c.pending.push_back({l, scopes});
  };
}

void raise(uint64_t& min, uint64_t to) { min = std::max(min, to); }
void lower(uint64_t& max, uint64_t to) { max = std::min(max, to); }

}  // namespace

void Expander::run(const LiteralSet& literals, uint8_t types) {
  Conjunction c;
  c.only(types);
  for (auto l = literals.rbegin(); l != literals.rend(); ++l) c.pending.push_back({*l, 0});
  solve(std::move(c), 0);
}

void Expander::choose(Conjunction& c, std::string place, std::vector<Branch> branches) {
  if (branches.empty()) {
    c.types = 0;
  } else if (branches.size() == 1) {
    branches[0](c);
  } else {
    c.choices.push_back(std::make_shared<const Conjunction::Choice>(
        Conjunction::Choice{std::move(place), std::move(branches)}));
  }
}

void Expander::solve(Conjunction c, int depth) {
  if (++sets_.steps_ > kExpansionStepsMax * 4)
    fail(Errc::kOutOfMemory, "schema: takes too many steps to compile");
  while (!c.pending.empty() && !c.dead()) {
    const Conjunction::Pending next = c.pending.back();
    c.pending.pop_back();
    apply(c, next);
  }
  if (c.dead()) return;
  if (c.choices.empty()) {
    ++leaves_;
    leaf_(c);
    return;
  }
  const auto choice = c.choices.back();
  c.choices.pop_back();
  if (depth > kChoicesMax || leaves_ > kAlternativesMax)
    fail(Errc::kUnsupported, "schema at '{}': more than {} ways to satisfy this keyword together with others",
         choice->place, kAlternativesMax);
  for (const Branch& branch : choice->branches) {
    CompileBudget::spend(c.weight());
    Conjunction next = c;
    branch(next);
    solve(std::move(next), depth + 1);
  }
}

void Expander::apply(Conjunction& c, Conjunction::Pending next) {
  const NodeId id = next.literal / 2;
  const SchemaNode& node = sets_.graph_.nodes[id];
  const auto [found, is_new] = c.seen.try_emplace(next.literal, next.scopes);
  if (!is_new) {
    if (next.scopes & ~found->second)
      fail(Errc::kUnsupported,
           "schema at '{}': this schema holds both inside and outside of an 'unevaluatedProperties' or "
           "'unevaluatedItems', which is not supported",
           node.pointer);
    return;
  }
  if (++sets_.steps_ > kExpansionStepsMax * 4)
    fail(Errc::kOutOfMemory, "schema: takes too many steps to compile");
  if (c.seen.count(next.literal ^ 1))
    c.types = 0;  // both a schema and its negation
  else if (next.literal & 1)
    negate(c, node, id);
  else
    require(c, node, id, next.scopes);
}

uint32_t Expander::open_scope(Conjunction& c, const SchemaNode& node, NodeId id, uint32_t scopes) {
  if (!node.unevaluated_items && !node.unevaluated_properties) return scopes;
  // For scopes around this one everything is evaluated here.
  if (node.unevaluated_properties) c.all_properties |= scopes;
  if (node.unevaluated_items) c.all_items |= scopes;
  if (c.scopes.size() >= 16)
    fail(Errc::kUnsupported, "schema at '{}': more than 16 'unevaluated…' for one value", node.pointer);
  c.scopes.push_back(id);
  return scopes | 1u << (c.scopes.size() - 1);
}

void Expander::require(Conjunction& c, const SchemaNode& node, NodeId id, uint32_t scopes) {
  if (node.never) {
    c.types = 0;
    return;
  }
  c.only(node.types);
  if (c.dead()) return;
  scopes = open_scope(c, node, id, scopes);
  if (node.integer) c.numbers.emplace_back(node.integers, false);
  for (const DfaPtr& dfa : node.texts) c.texts.emplace_back(dfa, false);
  for (const DfaPtr& dfa : node.numbers) c.numbers.emplace_back(dfa, false);
  raise(c.min_length, node.min_length);
  lower(c.max_length, node.max_length);
  if (c.min_length > c.max_length) c.only(kAnyType & ~kString);

  if (!node.prefix_items.empty() || node.items) c.array_nodes.push_back({id, scopes});
  if (node.contains) {
    c.contains.push_back({0, literal(*node.contains), node.min_contains, node.max_contains});
    c.contained.push_back({*node.contains, scopes});
  }
  raise(c.min_items, node.min_items);
  lower(c.max_items, node.max_items);
  c.unique |= node.unique_items;
  if (c.min_items > c.max_items) c.only(kAnyType & ~kArray);
  require_object(c, node, id, scopes);
  require_parts(c, node, scopes);
}

// Schemas for the same value.
void Expander::require_parts(Conjunction& c, const SchemaNode& node, uint32_t scopes) {
  if (node.ref) c.pending.push_back({literal(*node.ref), scopes});
  for (const NodeId child : node.all_of) c.pending.push_back({literal(child), scopes});
  if (node.negated) c.pending.push_back({literal(*node.negated, true), 0});
  for (const auto& options : node.values) {
    std::vector<Branch> branches;
    for (const NodeId option : options) branches.push_back(push({literal(option)}));
    choose(c, node.pointer + "/enum", std::move(branches));
  }
  for (const auto& options : node.any_of) {
    std::vector<Branch> branches;
    for (const NodeId option : options) branches.push_back(push({literal(option)}, scopes));
    // What counts as evaluated is the union over all that hold, so each choice of several is a way of its
    // own.
    if (scopes != 0 && options.size() > 6)
      fail(Errc::kUnsupported, "schema at '{}': more than 6 'anyOf' below an 'unevaluated…'", node.pointer);
    if (scopes != 0)
      for (uint32_t chosen = 1; chosen < (1u << options.size()); ++chosen) {
        std::vector<Literal> several;
        for (size_t i = 0; i < options.size(); ++i)
          if (chosen >> i & 1) several.push_back(literal(options[i]));
        if (several.size() > 1) branches.push_back(push(std::move(several), scopes));
      }
    choose(c, node.pointer + "/anyOf", std::move(branches));
  }
  if (!node.one_of.empty()) {
    std::vector<Branch> branches;
    CompileBudget::spend(node.one_of.size() * node.one_of.size());
    for (const NodeId option : node.one_of) {
      std::vector<Literal> literals{literal(option)};
      for (const NodeId other : node.one_of)
        if (other != option && !sets_.disjoint(option, other)) literals.push_back(literal(other, true));
      branches.push_back(push(std::move(literals), scopes));
    }
    choose(c, node.pointer + "/oneOf", std::move(branches));
  }
  if (node.condition && (node.then_node || node.else_node || scopes != 0)) {
    std::vector<Literal> yes{literal(*node.condition)}, no{literal(*node.condition, true)};
    if (node.then_node) yes.push_back(literal(*node.then_node));
    if (node.else_node) no.push_back(literal(*node.else_node));
    choose(c, node.pointer + "/if", {push(std::move(yes), scopes), push(std::move(no), scopes)});
  }
}

void Expander::require_object(Conjunction& c, const SchemaNode& node, NodeId id, uint32_t scopes) {
  if (!node.properties.empty() || !node.patterns.empty() || node.additional)
    c.object_nodes.push_back({id, scopes});
  c.required.insert(c.required.end(), node.required.begin(), node.required.end());
  if (node.names) c.names.push_back(literal(*node.names));
  raise(c.min_properties, node.min_properties);
  lower(c.max_properties, node.max_properties);
  c.ordered |= node.ordered;
  if (c.min_properties > c.max_properties) c.only(kAnyType & ~kObject);
  for (const SchemaNode::Dependency& dependency : node.dependencies) {
    const auto absent = [&dependency](Conjunction& to) { to.forbidden.push_back(dependency.name); };
    const auto present = [&dependency, scopes](Conjunction& to) {
      // Values that are no objects took the other way.
      to.only(kObject);
      to.required.push_back(dependency.name);
      to.required.insert(to.required.end(), dependency.required.begin(), dependency.required.end());
      if (dependency.node) to.pending.push_back({literal(*dependency.node), scopes});
    };
    choose(c, node.pointer + "/dependencies", {absent, present});
  }
}

void Expander::negate(Conjunction& c, const SchemaNode& node, NodeId id) {
  if (node.never) return;
  if (node.unevaluated_items || node.unevaluated_properties)
    fail(Errc::kUnsupported, "schema at '{}': keyword '{}' is not supported", node.pointer,
         node.unevaluated_items ? "unevaluatedItems" : "unevaluatedProperties");
  // One of its keywords must fail.
  std::vector<Branch> ways;
  if (node.types != kAnyType)
    ways.push_back(
        [types = node.types](Conjunction& to) { to.only(static_cast<uint8_t>(kAnyType & ~types)); });
  negate_scalars(node, ways);
  negate_array(node, ways);
  negate_object(node, id, ways);
  if (node.ref) ways.push_back(push({literal(*node.ref, true)}));
  for (const NodeId child : node.all_of) ways.push_back(push({literal(child, true)}));
  if (node.negated) ways.push_back(push({literal(*node.negated)}));
  for (const auto* lists : {&node.any_of, &node.values})
    for (const auto& options : *lists) {
      std::vector<Literal> none;
      for (const NodeId option : options) none.push_back(literal(option, true));
      ways.push_back(push(std::move(none)));
    }
  if (!node.one_of.empty()) {
    std::vector<Literal> none;
    for (const NodeId option : node.one_of) none.push_back(literal(option, true));
    ways.push_back(push(std::move(none)));
    CompileBudget::spend(node.one_of.size() * node.one_of.size());
    for (size_t i = 0; i < node.one_of.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (!sets_.disjoint(node.one_of[i], node.one_of[j]))
          ways.push_back(push({literal(node.one_of[i]), literal(node.one_of[j])}));
  }
  if (node.condition && node.then_node)
    ways.push_back(push({literal(*node.condition), literal(*node.then_node, true)}));
  if (node.condition && node.else_node)
    ways.push_back(push({literal(*node.condition, true), literal(*node.else_node, true)}));
  choose(c, node.pointer + "/not", std::move(ways));
}

void Expander::negate_scalars(const SchemaNode& node, std::vector<Branch>& ways) {
  const auto number = [&](DfaPtr dfa) {
    ways.push_back([dfa = std::move(dfa)](Conjunction& to) {
      to.only(kNumber);
      to.numbers.emplace_back(dfa, true);
      // Of numbers written with an exponent the automata know a part only: what they leave out may be one
      // that is refused (5e-0 is an integer, 60e1 is above 100).
      to.numbers.emplace_back(DfaPtr(&plain_number(), [](auto*) {}), false);
    });
  };
  if (node.integer) number(node.all_integers);
  for (const DfaPtr& dfa : node.numbers) number(dfa);
  for (const DfaPtr& dfa : node.texts)
    ways.push_back([dfa](Conjunction& to) {
      to.only(kString);
      to.texts.emplace_back(dfa, true);
    });
  if (node.min_length > 0)
    ways.push_back([max = node.min_length - 1](Conjunction& to) {
      to.only(kString);
      lower(to.max_length, max);
      if (to.min_length > to.max_length) to.types = 0;
    });
  if (node.max_length != kUnbounded)
    ways.push_back([min = node.max_length + 1](Conjunction& to) {
      to.only(kString);
      raise(to.min_length, min);
      if (to.min_length > to.max_length) to.types = 0;
    });
}

void Expander::negate_array(const SchemaNode& node, std::vector<Branch>& ways) {
  const auto array = [&](auto change) {
    ways.push_back([change](Conjunction& to) {
      to.only(kArray);
      change(to);
      if (to.min_items > to.max_items) to.types = 0;
    });
  };
  if (node.min_items > 0) array([max = node.min_items - 1](Conjunction& to) { lower(to.max_items, max); });
  if (node.max_items != kUnbounded)
    array([min = node.max_items + 1](Conjunction& to) { raise(to.min_items, min); });
  for (size_t i = 0; i < node.prefix_items.size(); ++i)
    array([i, item = literal(node.prefix_items[i], true)](Conjunction& to) {
      raise(to.min_items, i + 1);
      to.item_at.emplace_back(i, item);
    });
  if (node.items)
    array([from = node.prefix_items.size(), item = literal(*node.items, true)](Conjunction& to) {
      to.contains.push_back({from, item, 1, kUnbounded});
    });
  if (node.contains) {
    const NodeId item = *node.contains;
    if (node.min_contains > 0)
      array([item, max = node.min_contains - 1](Conjunction& to) {
        if (max == 0)
          to.every_item.push_back(literal(item, true));
        else
          to.contains.push_back({0, literal(item), 0, max});
      });
    if (node.max_contains != kUnbounded)
      array([item, min = node.max_contains + 1](Conjunction& to) {
        to.contains.push_back({0, literal(item), min, kUnbounded});
      });
  }
  if (node.unique_items)
    fail(Errc::kUnsupported, "schema at '{}': keyword 'uniqueItems' is not supported under a negation",
         node.pointer);
}

void Expander::negate_object(const SchemaNode& node, NodeId id, std::vector<Branch>& ways) {
  const auto object = [&](auto change) {
    ways.push_back([change](Conjunction& to) {
      to.only(kObject);
      change(to);
      if (to.min_properties > to.max_properties) to.types = 0;
    });
  };
  using Exists = Conjunction::ExistsProperty;
  for (const std::string& name : node.required)
    object([name](Conjunction& to) { to.forbidden.push_back(name); });
  for (const SchemaNode::Property& property : node.properties)
    object([&property](Conjunction& to) {
      to.required.push_back(property.name);
      to.property_at.emplace_back(property.name, literal(property.node, true));
    });
  for (size_t i = 0; i < node.patterns.size(); ++i)
    object([id, i, value = literal(node.patterns[i].node, true)](Conjunction& to) {
      to.exists.push_back({Exists::Kind::kPattern, id, i, value});
    });
  if (node.additional)
    object([id, value = literal(*node.additional, true)](Conjunction& to) {
      to.exists.push_back({Exists::Kind::kAdditional, id, 0, value});
    });
  if (node.names)
    object([id, names = literal(*node.names)](Conjunction& to) {
      to.exists.push_back({Exists::Kind::kBadName, id, 0, names});
    });
  if (node.min_properties > 0)
    object([max = node.min_properties - 1](Conjunction& to) { lower(to.max_properties, max); });
  if (node.max_properties != kUnbounded)
    object([min = node.max_properties + 1](Conjunction& to) { raise(to.min_properties, min); });
  for (const SchemaNode::Dependency& dependency : node.dependencies) {
    for (const std::string& name : dependency.required)
      object([&dependency, name](Conjunction& to) {
        to.required.push_back(dependency.name);
        to.forbidden.push_back(name);
      });
    if (dependency.node)
      object([&dependency](Conjunction& to) {
        to.required.push_back(dependency.name);
        to.pending.push_back({literal(*dependency.node, true), 0});
      });
  }
}

}  // namespace butterfly::model::grammar
