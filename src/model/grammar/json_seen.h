// Items of an array, and names of an object, that must all differ.
#pragma once
#include <memory>
#include <string_view>

#include "model/grammar/json_state.h"

namespace butterfly::model::grammar {

// True if every way to see the array asks for items that differ. Then items can be kept from becoming equal
// to one before; otherwise equal ones are only found when they are whole.
bool all_unique(const JsonFrame& frame);

// The items with one more, given as JSON text; the same pointer if it is among them.
std::shared_ptr<const JsonSeenItems> with_item(const std::shared_ptr<const JsonSeenItems>& seen,
                                               std::string_view text);

}  // namespace butterfly::model::grammar
