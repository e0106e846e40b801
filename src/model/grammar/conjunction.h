// Internal to schema_sets: literals that hold together, as conditions on each kind of value.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/grammar/schema_sets.h"

namespace butterfly::model::grammar {

struct Conjunction {
  using Terms = std::vector<std::pair<DfaPtr, bool>>;  // true: must not match
  using Branch = std::function<void(Conjunction&)>;
  struct Choice {
    std::string place;  // keyword, for messages
    std::vector<Branch> branches;
  };
  struct Contains {
    uint64_t from = 0;  // index of the first item that counts
    Literal item = 0;
    uint64_t min = 1, max = kUnbounded;
  };
  // Some property must exist whose name `node` would treat so, and whose value satisfies `value`.
  struct ExistsProperty {
    enum class Kind { kAdditional, kPattern, kBadName };
    Kind kind = Kind::kAdditional;
    NodeId node = 0;
    size_t pattern = 0;
    Literal value = 0;
  };

  uint8_t types = kAnyType;
  Terms texts, numbers;
  uint64_t min_length = 0, max_length = kUnbounded;

  // A node whose conditions hold, and the scopes it is in.
  struct Member {
    NodeId node = 0;
    uint32_t scopes = 0;
  };
  std::vector<Member> array_nodes;  // prefixItems and items hold
  std::vector<Member> contained;    // schemas of "contains", which evaluate the items they match
  std::vector<std::pair<uint64_t, Literal>> item_at;
  std::vector<Literal> every_item;
  std::vector<Contains> contains;
  uint64_t min_items = 0, max_items = kUnbounded;
  bool unique = false;

  std::vector<Member> object_nodes;  // properties, patternProperties, additionalProperties hold
  std::vector<std::string> required, forbidden;
  std::vector<std::pair<std::string, Literal>> property_at;
  std::vector<ExistsProperty> exists;
  std::vector<Literal> names;
  uint64_t min_properties = 0, max_properties = kUnbounded;
  bool ordered = false;

  // Nodes with unevaluatedProperties or unevaluatedItems. What they apply to depends on all schemas below
  // them that hold for the same value: the members of their scope, a bit each.
  std::vector<NodeId> scopes;
  uint32_t all_properties = 0, all_items = 0;  // scopes in which a member evaluates all

  struct Pending {
    Literal literal = 0;
    uint32_t scopes = 0;
  };
  std::vector<Pending> pending;  // not looked at yet
  std::map<Literal, uint32_t> seen;
  std::vector<std::shared_ptr<const Choice>> choices;

  bool dead() const { return types == 0; }
  // How much there is to copy.
  size_t weight() const {
    return 1 + texts.size() + numbers.size() + array_nodes.size() + contained.size() + item_at.size() +
           every_item.size() + contains.size() + object_nodes.size() + required.size() + forbidden.size() +
           property_at.size() + exists.size() + names.size() + pending.size() + seen.size() + choices.size();
  }
  void only(uint8_t kinds) { types &= kinds; }
};

// Takes literals apart until only conditions are left; hands each way to satisfy them to `leaf`. One thread.
class Expander {
 public:
  Expander(SchemaSets& sets, std::function<void(const Conjunction&)> leaf)
      : sets_(sets), leaf_(std::move(leaf)) {}
  // `types`: the kinds of values that matter.
  void run(const LiteralSet& literals, uint8_t types = kAnyType);

 private:
  void solve(Conjunction c, int depth);
  void apply(Conjunction& c, Conjunction::Pending next);
  void require(Conjunction& c, const SchemaNode& node, NodeId id, uint32_t scopes);
  void require_object(Conjunction& c, const SchemaNode& node, NodeId id, uint32_t scopes);
  void require_parts(Conjunction& c, const SchemaNode& node, uint32_t scopes);
  uint32_t open_scope(Conjunction& c, const SchemaNode& node, NodeId id, uint32_t scopes);
  void negate(Conjunction& c, const SchemaNode& node, NodeId id);
  void negate_scalars(const SchemaNode& node, std::vector<Conjunction::Branch>& ways);
  void negate_array(const SchemaNode& node, std::vector<Conjunction::Branch>& ways);
  void negate_object(const SchemaNode& node, NodeId id, std::vector<Conjunction::Branch>& ways);
  void choose(Conjunction& c, std::string place, std::vector<Conjunction::Branch> branches);

  SchemaSets& sets_;
  std::function<void(const Conjunction&)> leaf_;
  size_t leaves_ = 0;
};

class ObjectBuilder;

// Adds the shapes of one conjunction to a set of values. One thread.
class ShapeBuilder {
 public:
  ShapeBuilder(SchemaSets& sets, ValueSet& to) : sets_(sets), to_(to) {}
  void add(const Conjunction& c);

 private:
  friend class ObjectBuilder;
  void add_array(const Conjunction& c);
  void add_object(const Conjunction& c);
  // What unevaluatedItems of each scope says about an item.
  void add_unevaluated_item(const Conjunction& c, size_t index, LiteralSet& literals);
  // Each choice of conditions that the child counts for, with the child's literals.
  std::vector<ChildOption> options(const LiteralSet& base,
                                   const std::vector<std::pair<uint32_t, Literal>>& counts,
                                   const std::vector<CountCondition>& conditions);

  SchemaSets& sets_;
  ValueSet& to_;
};

}  // namespace butterfly::model::grammar
