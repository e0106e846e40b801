// What may stand at one place of a JSON text: the union of shapes, one kind of value each.
//
// A shape is a conjunction: whatever continues it by its own rules ends in a valid value. Alternatives
// (anyOf, oneOf, …) have become several shapes, and each child is again a set of values, named by its id.
#pragma once
#include <cstdint>
#include <vector>

#include "model/grammar/schema_node.h"

namespace butterfly::model::grammar {

using SetId = uint32_t;

struct StringShape {
  DfaPtr dfa;
  bool free = false;  // any text; only then lengths are counted, else the automaton does it
  uint64_t min_length = 0, max_length = kUnbounded;
  bool finite = false;  // the automaton accepts finitely many texts
};

// A child value may be of `child`, and then does what `gains` says.
struct ChildOption {
  SetId child = 0;
  uint32_t gains = 0;  // a bit for each condition of the container that such a child counts for
};

// So many children must count for it.
struct CountCondition {
  uint64_t min = 1, max = kUnbounded;
};

struct ArrayShape {
  std::vector<std::vector<ChildOption>> prefix;  // by index
  std::vector<ChildOption> rest;
  std::vector<CountCondition> conditions;
  uint64_t min_items = 0, max_items = kUnbounded;
  bool unique = false;

  const std::vector<ChildOption>& at(uint64_t index) const {
    return index < prefix.size() ? prefix[index] : rest;
  }
};

// Names of properties that the schema treats alike. A name comes at most once in an object.
struct NameClass {
  static constexpr uint32_t kMany = ~uint32_t{0};
  uint32_t name = kMany;  // index of the one name that the class is, or kMany
  std::vector<ChildOption> options;
  uint64_t name_count = 1;  // kUnbounded: infinitely many
};

struct ObjectShape {
  DfaPtr keys;  // label: class + 1
  std::vector<NameClass> classes;
  std::vector<uint32_t> class_of_name;  // classes.size() for a name that cannot come
  std::vector<uint32_t> required;       // names
  std::vector<CountCondition> conditions;
  uint64_t min_properties = 0, max_properties = kUnbounded;
  bool ordered = false;

  // From analysis: bit c of words [state * reach_words, …): a key may still become one of class c.
  std::vector<uint64_t> reach;
  size_t reach_words = 0;
  bool open = false;                // some class of many names is possible
  std::vector<uint32_t> many_left;  // [state of keys]: so many names of such classes; kManyLeft: infinitely
  static constexpr uint32_t kManyLeft = ~uint32_t{0};
  bool all_open = false;  // infinitely many from every live state
};

struct ValueSet {
  uint8_t simple = 0;  // of kNull, kFalse, kTrue
  std::vector<StringShape> strings;
  std::vector<DfaPtr> numbers;
  std::vector<ArrayShape> arrays;
  std::vector<ObjectShape> objects;
  bool productive = false;  // there is such a value
};

}  // namespace butterfly::model::grammar
