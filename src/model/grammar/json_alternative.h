// What an alternative of an array or object still allows.
#pragma once
#include <utility>
#include <vector>

#include "model/grammar/json_state.h"

namespace butterfly::model::grammar {

JsonAlternative first_alternative(uint32_t goal, const ArrayShape& shape);
JsonAlternative first_alternative(uint32_t goal, const ObjectShape& shape);

// A key of this class may come now.
bool key_allowed(const JsonAlternative& alternative, uint32_t name_class);
// Some key that `state` of the shape's automaton leads to may come now. It begins with `prefix`, and is none
// of `names` (null: not asked).
bool key_possible(const JsonAlternative& alternative, uint32_t state, const JsonSeenNames* names,
                  std::string_view prefix);
bool may_close(const JsonAlternative& alternative);

// Adds the sets the next child may be of, each with what the alternative becomes then.
using JsonChildren = std::vector<std::pair<SetId, JsonAlternative>>;
void add_item(const JsonAlternative& alternative, JsonChildren& children);
void add_property(const JsonAlternative& alternative, uint32_t name_class, JsonChildren& children);

}  // namespace butterfly::model::grammar
