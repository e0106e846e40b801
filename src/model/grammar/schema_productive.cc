// Which sets have a value at all, and what that leaves of their shapes: so that no text runs into a dead end.
#include <algorithm>

#include "model/grammar/compile_budget.h"
#include "model/grammar/dfa_counts.h"
#include "model/grammar/schema_sets.h"

namespace butterfly::model::grammar {

namespace {

using Sets = std::vector<std::unique_ptr<ValueSet>>;

bool any_productive(const Sets& sets, const std::vector<ChildOption>& options) {
  return std::any_of(options.begin(), options.end(),
                     [&](const ChildOption& option) { return sets[option.child]->productive; });
}

bool gains(const Sets& sets, const std::vector<ChildOption>& options, size_t condition) {
  return std::any_of(options.begin(), options.end(), [&](const ChildOption& option) {
    return (option.gains >> condition & 1) && sets[option.child]->productive;
  });
}

// The number of items that can come before one is impossible.
uint64_t items_possible(const Sets& sets, const ArrayShape& shape) {
  for (size_t i = 0; i < shape.prefix.size(); ++i)
    if (!any_productive(sets, shape.prefix[i])) return i;
  return any_productive(sets, shape.rest) ? kUnbounded : shape.prefix.size();
}

bool has_value(const Sets& sets, const ArrayShape& shape) {
  const uint64_t room = std::min(shape.max_items, items_possible(sets, shape));
  if (shape.min_items > room) return false;
  for (size_t k = 0; k < shape.conditions.size(); ++k) {
    const uint64_t needed = shape.conditions[k].min;
    if (needed == 0) continue;
    uint64_t places = 0;
    for (size_t i = 0; i < shape.prefix.size() && i < room; ++i) places += gains(sets, shape.prefix[i], k);
    if (room > shape.prefix.size() && gains(sets, shape.rest, k))
      places = room == kUnbounded ? kUnbounded : places + (room - shape.prefix.size());
    if (places < needed) return false;
  }
  return true;
}

bool has_value(const Sets& sets, const ObjectShape& shape) {
  for (const uint32_t name : shape.required) {
    const uint32_t c = shape.class_of_name[name];
    if (c >= shape.classes.size() || !any_productive(sets, shape.classes[c].options)) return false;
  }
  uint64_t possible = 0;
  for (const NameClass& c : shape.classes) {
    if (!any_productive(sets, c.options)) continue;
    possible = c.name_count > kUnbounded - possible ? kUnbounded : possible + c.name_count;
  }
  if (possible < shape.min_properties || shape.required.size() > shape.max_properties) return false;
  for (size_t k = 0; k < shape.conditions.size(); ++k)
    if (std::none_of(shape.classes.begin(), shape.classes.end(),
                     [&](const NameClass& c) { return gains(sets, c.options, k); }))
      return false;
  return true;
}

bool has_value(const Sets& sets, const ValueSet& set) {
  if (set.simple || !set.strings.empty() || !set.numbers.empty()) return true;
  const auto good = [&](const auto& shape) { return has_value(sets, shape); };
  return std::any_of(set.arrays.begin(), set.arrays.end(), good) ||
         std::any_of(set.objects.begin(), set.objects.end(), good);
}

size_t child_count(const ValueSet& set) {
  size_t count = 0;
  for (const ArrayShape& shape : set.arrays)
    count += (shape.prefix.size() + 1) * (1 + shape.conditions.size());
  for (const ObjectShape& shape : set.objects)
    count += shape.required.size() + shape.classes.size() * (1 + shape.conditions.size());
  return count;
}

void keep_productive(const Sets& sets, std::vector<ChildOption>& options) {
  std::erase_if(options, [&](const ChildOption& option) { return !sets[option.child]->productive; });
}

// No state that can be reached leads back to itself: by depth-first search without recursion.
bool is_finite(const Dfa& dfa) {
  std::vector<uint8_t> color(dfa.states(), 0);  // 1: on the path, 2: done
  std::vector<std::pair<uint32_t, uint32_t>> path{{dfa.start, 0}};
  if (dfa.start == 0) return true;
  color[dfa.start] = 1;
  while (!path.empty()) {
    auto& [state, next] = path.back();
    if (next == dfa.classes) {
      color[state] = 2;
      path.pop_back();
      continue;
    }
    const uint32_t to = dfa.next[state * dfa.classes + next++];
    if (to == 0 || color[to] == 2) continue;
    if (color[to] == 1) return false;
    color[to] = 1;
    path.emplace_back(to, 0);
  }
  return true;
}

// Which classes a key can still become, backwards from accepting states until nothing changes.
void find_reach(ObjectShape& shape) {
  const Dfa& keys = *shape.keys;
  const size_t words = shape.reach_words = shape.classes.size() / 64 + 1;
  shape.reach.assign(keys.states() * words, 0);
  for (size_t q = 1; q < keys.states(); ++q)
    if (const uint32_t label = keys.label[q]; label != 0 && !shape.classes[label - 1].options.empty())
      shape.reach[q * words + (label - 1) / 64] |= uint64_t{1} << ((label - 1) % 64);
  for (bool changed = true; changed;) {
    changed = false;
    CompileBudget::spend(1 + keys.next.size() * words / 32);
    for (size_t q = keys.states() - 1; q > 0; --q)
      for (size_t c = 0; c < keys.classes; ++c) {
        const size_t to = keys.next[q * keys.classes + c];
        if (to == 0 || to == q) continue;
        for (size_t w = 0; w < words; ++w) {
          const uint64_t more = shape.reach[to * words + w] & ~shape.reach[q * words + w];
          shape.reach[q * words + w] |= more;
          changed |= more != 0;
        }
      }
  }
  const auto is_open = [&](uint32_t label) {
    const NameClass& c = shape.classes[label - 1];
    return c.name == NameClass::kMany && !c.options.empty();
  };
  for (uint32_t i = 0; i < shape.classes.size(); ++i) shape.open |= is_open(i + 1);
  shape.many_left.assign(keys.states(), 0);
  if (!shape.open) return;
  const std::vector<uint64_t> counts = text_counts(keys, is_open);
  for (size_t q = 1; q < keys.states(); ++q)
    shape.many_left[q] = static_cast<uint32_t>(std::min<uint64_t>(counts[q], ObjectShape::kManyLeft));
  shape.all_open = std::all_of(shape.many_left.begin() + 1, shape.many_left.end(),
                               [](uint32_t left) { return left == ObjectShape::kManyLeft; });
}

}  // namespace

void SchemaSets::find_productive() {
  // The least fixed point: a value must be finite.
  for (bool changed = true; changed;) {
    changed = false;
    // From the back: children mostly come behind their parents.
    for (auto set = sets_.rbegin(); set != sets_.rend(); ++set) {
      if ((*set)->productive) continue;
      CompileBudget::spend(1 + child_count(**set) / 4);
      if (has_value(sets_, **set)) (*set)->productive = changed = true;
    }
  }
}

void SchemaSets::finish_shapes() {
  for (const auto& set : sets_) {
    std::erase_if(set->arrays, [&](const ArrayShape& shape) { return !has_value(sets_, shape); });
    std::erase_if(set->objects, [&](const ObjectShape& shape) { return !has_value(sets_, shape); });
    for (StringShape& shape : set->strings) shape.finite = !shape.free && is_finite(*shape.dfa);
    for (ArrayShape& shape : set->arrays) {
      shape.max_items = std::min(shape.max_items, items_possible(sets_, shape));
      for (auto& options : shape.prefix) keep_productive(sets_, options);
      keep_productive(sets_, shape.rest);
    }
    for (ObjectShape& shape : set->objects) {
      for (NameClass& c : shape.classes) keep_productive(sets_, c.options);
      find_reach(shape);
    }
  }
}

}  // namespace butterfly::model::grammar
