// How many texts an automaton accepts, and which, where they are few.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/grammar/dfa.h"

namespace butterfly::model::grammar {

using LabelTest = std::function<bool(uint32_t label)>;

// [state]: so many texts from there get a label that is wanted (label 0 never is); kUnbounded: infinitely
// many, or too many to count.
std::vector<uint64_t> text_counts(const Dfa& dfa, const LabelTest& wanted);

// The texts whose label is wanted; empty if they are none or more than `max`.
std::vector<std::string> few_texts(const Dfa& dfa, const LabelTest& wanted, size_t max);

}  // namespace butterfly::model::grammar
