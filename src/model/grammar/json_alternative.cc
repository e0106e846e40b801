#include "model/grammar/json_alternative.h"

#include <algorithm>

namespace butterfly::model::grammar {

namespace {

bool gain(JsonAlternative& alternative, const std::vector<CountCondition>& conditions, uint32_t gains) {
  for (size_t k = 0; k < conditions.size(); ++k) {
    if (!(gains >> k & 1)) continue;
    // Past both bounds the count does not matter; it stops, so that alternatives stay few.
    const uint64_t top = conditions[k].max == kUnbounded ? conditions[k].min : conditions[k].max + 1;
    if (alternative.gained[k] < top) ++alternative.gained[k];
    if (alternative.gained[k] > conditions[k].max) return false;
  }
  return true;
}

bool conditions_met(const JsonAlternative& alternative, const std::vector<CountCondition>& conditions) {
  for (size_t k = 0; k < conditions.size(); ++k)
    if (alternative.gained[k] < conditions[k].min) return false;
  return true;
}

bool any_gains(const std::vector<ChildOption>& options, size_t k) {
  return std::any_of(options.begin(), options.end(), [&](const ChildOption& o) { return o.gains >> k & 1; });
}

// The conditions can still be met by children to come.
bool array_hopeful(const JsonAlternative& a) {
  const ArrayShape& shape = *a.array;
  for (size_t k = 0; k < shape.conditions.size(); ++k) {
    if (a.gained[k] >= shape.conditions[k].min) continue;
    const uint64_t needed = shape.conditions[k].min - a.gained[k];
    uint64_t places = 0;
    for (uint64_t i = a.count; i < shape.prefix.size() && i < shape.max_items; ++i)
      places += any_gains(shape.prefix[i], k);
    if (any_gains(shape.rest, k)) {
      const uint64_t from = std::max<uint64_t>(a.count, shape.prefix.size());
      if (shape.max_items == kUnbounded) continue;
      if (shape.max_items > from) places += shape.max_items - from;
    }
    if (places < needed) return false;
  }
  return true;
}

bool object_hopeful(const JsonAlternative& a) {
  const ObjectShape& shape = *a.object;
  for (size_t k = 0; k < shape.conditions.size(); ++k) {
    if (a.gained[k] >= shape.conditions[k].min) continue;
    bool found = false;
    for (uint32_t c = 0; c < shape.classes.size() && !found; ++c)
      found = any_gains(shape.classes[c].options, k) && key_allowed(a, c);
    if (!found) return false;
  }
  return true;
}

// For one more property beside those that must come.
bool has_room(const JsonAlternative& a, uint64_t missing) {
  return a.object->max_properties == kUnbounded || a.count + 1 + missing <= a.object->max_properties;
}

// Some name that the shape does not list is possible from this state of its keys.
bool unlisted_left(const ObjectShape& shape, uint32_t state, const JsonSeenNames* names,
                   std::string_view prefix) {
  const uint32_t left = shape.many_left[state];
  if (left == 0 || left == ObjectShape::kManyLeft || !names) return left != 0;
  uint32_t used = 0;
  for (const std::string& name : names->beginning_with(prefix)) {
    const uint32_t label = shape.keys->match(name);
    used += label != 0 && shape.classes[label - 1].name == NameClass::kMany &&
            !shape.classes[label - 1].options.empty();
  }
  return left > used;
}

bool is_required(const ObjectShape& shape, uint32_t name) {
  return std::find(shape.required.begin(), shape.required.end(), name) != shape.required.end();
}

}  // namespace

JsonAlternative first_alternative(uint32_t goal, const ArrayShape& shape) {
  JsonAlternative a;
  a.goal = goal;
  a.array = &shape;
  return a;
}

JsonAlternative first_alternative(uint32_t goal, const ObjectShape& shape) {
  JsonAlternative a;
  a.goal = goal;
  a.object = &shape;
  a.missing = static_cast<uint32_t>(shape.required.size());
  return a;
}

bool key_allowed(const JsonAlternative& a, uint32_t name_class) {
  const ObjectShape& shape = *a.object;
  const NameClass& c = shape.classes[name_class];
  if (c.options.empty()) return false;
  uint32_t missing = a.missing;
  if (c.name != NameClass::kMany) {
    if (a.seen.test(c.name)) return false;
    if (shape.max_properties != kUnbounded && missing > 0 && is_required(shape, c.name)) --missing;
    if (shape.ordered) {
      if (c.name < a.next_name) return false;
      for (const uint32_t name : shape.required)
        if (name < c.name && !a.seen.test(name)) return false;
    }
  }
  return has_room(a, missing);
}

bool key_possible(const JsonAlternative& a, uint32_t state, const JsonSeenNames* names,
                  std::string_view prefix) {
  const ObjectShape& shape = *a.object;
  if (has_room(a, a.missing) && unlisted_left(shape, state, names, prefix)) return true;
  const uint64_t* words = &shape.reach[state * shape.reach_words];
  for (size_t w = 0; w < shape.reach_words; ++w)
    for (uint64_t bits = words[w]; bits != 0; bits &= bits - 1) {
      const auto c = static_cast<uint32_t>(w * 64 + static_cast<size_t>(__builtin_ctzll(bits)));
      if (shape.classes[c].name != NameClass::kMany && key_allowed(a, c)) return true;
    }
  return false;
}

bool may_close(const JsonAlternative& a) {
  if (a.array) return a.count >= a.array->min_items && conditions_met(a, a.array->conditions);
  return a.missing == 0 && a.count >= a.object->min_properties && conditions_met(a, a.object->conditions);
}

void add_item(const JsonAlternative& a, JsonChildren& children) {
  const ArrayShape& shape = *a.array;
  if (a.count >= shape.max_items) return;
  for (const ChildOption& option : shape.at(a.count)) {
    JsonAlternative after = a;
    // Beyond every bound the count does not matter.
    if (after.count <= std::max<uint64_t>(shape.prefix.size(), shape.min_items) ||
        shape.max_items != kUnbounded)
      ++after.count;
    if (gain(after, shape.conditions, option.gains) && array_hopeful(after))
      children.emplace_back(option.child, std::move(after));
  }
}

void add_property(const JsonAlternative& a, uint32_t name_class, JsonChildren& children) {
  if (!key_allowed(a, name_class)) return;
  const ObjectShape& shape = *a.object;
  const NameClass& c = shape.classes[name_class];
  for (const ChildOption& option : c.options) {
    JsonAlternative after = a;
    if (c.name != NameClass::kMany) {
      after.seen.set(c.name);
      if (shape.ordered) after.next_name = c.name + 1;
      if (is_required(shape, c.name)) --after.missing;
    }
    if (after.count < shape.min_properties || shape.max_properties != kUnbounded) ++after.count;
    if (gain(after, shape.conditions, option.gains) && object_hopeful(after))
      children.emplace_back(option.child, std::move(after));
  }
}

}  // namespace butterfly::model::grammar
