// Names like the one that was typed, for "did you mean".
#pragma once
#include <cstddef>
#include <string_view>

namespace butterfly {

// Levenshtein distance: insertions, deletions and replacements from one word to the other.
size_t edit_distance(std::string_view a, std::string_view b);

// How many edits away a name may be and still be meant.
constexpr size_t near_edits(std::string_view typed) { return typed.size() < 6 ? 1 : typed.size() / 3; }

}  // namespace butterfly
