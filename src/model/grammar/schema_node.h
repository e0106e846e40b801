// A JSON schema as a list of nodes that name each other by index: one per subschema, keywords already read.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/grammar/dfa.h"

namespace butterfly::model::grammar {

using DfaPtr = std::shared_ptr<const Dfa>;
using NodeId = uint32_t;

// The kinds of JSON values, as bits. Integers are numbers with a condition.
enum TypeBits : uint8_t {
  kNull = 1,
  kFalse = 2,
  kTrue = 4,
  kNumber = 8,
  kString = 16,
  kArray = 32,
  kObject = 64,
  kBoolean = kFalse | kTrue,
  kAnyType = 127,
};

struct SchemaNode {
  struct Property {
    std::string name;
    NodeId node = 0;
  };
  struct Pattern {
    DfaPtr names;
    NodeId node = 0;
  };
  struct Dependency {
    std::string name;
    std::vector<std::string> required;
    std::optional<NodeId> node;
  };

  std::string pointer;  // where it stands in the document
  bool never = false;   // the schema `false`
  uint8_t types = kAnyType;
  bool integer = false;  // numbers must be integers,
  DfaPtr integers;       // which are these when they are asked for,
  DfaPtr all_integers;   // and these when they are refused

  // Schemas for the same value.
  std::optional<NodeId> ref, negated, condition, then_node, else_node;
  std::vector<NodeId> all_of;
  std::vector<std::vector<NodeId>> any_of;  // one of each list, at least
  std::vector<std::vector<NodeId>> values;  // the same, made of lists of values
  std::vector<NodeId> one_of;

  // Strings.
  uint64_t min_length = 0, max_length = kUnbounded;
  std::vector<DfaPtr> texts;  // all must match
  // Numbers.
  std::vector<DfaPtr> numbers;

  // Arrays.
  std::vector<NodeId> prefix_items;
  std::optional<NodeId> items, contains;
  uint64_t min_items = 0, max_items = kUnbounded;
  uint64_t min_contains = 1, max_contains = kUnbounded;
  bool unique_items = false;
  std::optional<NodeId> unevaluated_items;

  // Objects.
  std::vector<Property> properties;
  std::vector<Pattern> patterns;
  std::optional<NodeId> additional, names, unevaluated_properties;
  std::vector<std::string> required;
  std::vector<Dependency> dependencies;
  uint64_t min_properties = 0, max_properties = kUnbounded;
  bool ordered = false;  // properties come in the order they are listed
};

struct SchemaGraph {
  std::deque<SchemaNode> nodes;  // stay where they are when others are added
  NodeId root = 0;
};

}  // namespace butterfly::model::grammar
