// From the nodes of a schema to sets of values: conjunctions of subschemas become unions of shapes.
//
// A literal is a subschema or its negation. The place of a value in a text gives a set of literals that must
// all hold there; what they allow together is computed once per set (disjunctive normal form), so allOf, not,
// oneOf and if/then/else are exact, and recursion through $ref ends because there are finitely many sets.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/grammar/schema_node.h"
#include "model/grammar/value_set.h"

namespace butterfly::model::grammar {

using Literal = uint32_t;  // node * 2 + 1 if negated
inline Literal literal(NodeId node, bool negated = false) { return node * 2 + (negated ? 1 : 0); }
using LiteralSet = std::vector<Literal>;  // sorted, each once; all must hold

struct Conjunction;

// The sets of values that a schema speaks of, each once, numbered. All work is done in the constructor,
// within the budget of the compilation; immutable then, so any thread may read it.
class SchemaSets {
 public:
  // Throws Error: kUnsupported and kOutOfMemory name the keyword and place.
  explicit SchemaSets(SchemaGraph graph);

  SetId root() const { return root_; }
  const ValueSet& operator[](SetId id) const { return *sets_[id]; }
  size_t size() const { return sets_.size(); }
  size_t bytes() const;  // in memory, about

 private:
  friend class Expander;
  friend class ShapeBuilder;
  friend class ObjectBuilder;

  SetId intern(LiteralSet literals);
  void expand(SetId id);
  // False only if no value satisfies the literals, as far as a few levels show.
  bool maybe(SetId id, int depth);
  bool disjoint(NodeId a, NodeId b);
  // Strings that satisfy the literals; for names of properties.
  DfaPtr text_dfa(const LiteralSet& literals);
  DfaPtr conjunction_of(const std::vector<std::pair<DfaPtr, bool>>& terms, const Dfa& all,
                        uint64_t min_length, uint64_t max_length);
  // A schema that holds if one of these does.
  NodeId any_node(const std::vector<NodeId>& options);
  void find_productive();
  void finish_shapes();

  SchemaGraph graph_;
  SetId root_ = 0;
  std::map<LiteralSet, SetId> ids_;
  std::vector<LiteralSet> literals_;
  std::vector<std::unique_ptr<ValueSet>> sets_;  // null: not expanded yet
  std::map<std::pair<NodeId, NodeId>, bool> disjoint_;
  std::map<std::vector<NodeId>, NodeId> any_nodes_;
  std::map<std::vector<uint64_t>, DfaPtr> dfas_;  // conjunctions made before
  std::vector<DfaPtr> kept_;                      // keeps the keys of dfas_ alive
  size_t steps_ = 0;
  int nested_ = 0;
};

}  // namespace butterfly::model::grammar
