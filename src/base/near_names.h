// Names like the one that was typed, for "did you mean".
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace butterfly {

// Insertions, deletions, replacements and neighbours that changed places, from one word to the other (optimal
// string alignment): "prot" is one from "port".
size_t edit_distance(std::string_view a, std::string_view b);

// How many edits away a name may be and still be meant.
constexpr size_t near_edits(std::string_view typed) { return typed.size() < 6 ? 1 : typed.size() / 3; }

// "; did you mean 'x'?" with the one of `names` that is most like what was typed; empty if none is.
std::string did_you_mean(std::string_view typed, std::span<const std::string_view> names);

}  // namespace butterfly
