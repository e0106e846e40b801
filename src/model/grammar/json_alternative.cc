#include "model/grammar/json_alternative.h"

#include <algorithm>
#include <array>
#include <optional>

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

bool is_required(const ObjectShape& shape, uint32_t name) {
  return std::find(shape.required.begin(), shape.required.end(), name) != shape.required.end();
}

// The fewest properties more with which everything that must come has come: required names, and a child for
// each condition (of which one property may meet several). kUnbounded: there is no such way.
uint64_t fewest_left(const JsonAlternative& a) {
  constexpr size_t kSets = size_t{1} << std::tuple_size_v<decltype(a.gained)>;  // of conditions
  const ObjectShape& shape = *a.object;
  const size_t count = shape.conditions.size();
  const uint32_t all = (1u << count) - 1;
  uint32_t met = 0;
  for (size_t k = 0; k < count; ++k) met |= uint32_t{a.gained[k] >= shape.conditions[k].min} << k;
  std::array<uint64_t, kSets> fewest;  // [conditions met]
  fewest.fill(kUnbounded);
  fewest[met] = 0;
  for (const NameClass& c : shape.classes) {
    if (c.options.empty()) continue;
    const bool many = c.name == NameClass::kMany;
    if (!many && a.seen.test(c.name)) continue;
    const bool required = !many && is_required(shape, c.name);
    // More than one for each condition is of no use.
    const uint64_t times = many ? std::min<uint64_t>(c.name_count, count) : 1;
    for (uint64_t i = 0; i < times; ++i) {
      const std::array<uint64_t, kSets> before = fewest;
      if (required) fewest.fill(kUnbounded);
      for (uint32_t set = 0; set <= all; ++set) {
        if (before[set] == kUnbounded) continue;
        for (const ChildOption& option : c.options) {
          uint64_t& with = fewest[set | (option.gains & all)];
          with = std::min(with, before[set] + 1);
        }
      }
    }
  }
  return fewest[all];
}

bool object_hopeful(const JsonAlternative& a) {
  const ObjectShape& shape = *a.object;
  if (shape.conditions.empty()) return true;
  const uint64_t left = fewest_left(a);
  if (left == kUnbounded) return false;
  return shape.max_properties == kUnbounded || a.count + left <= shape.max_properties;
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

// What the alternative becomes by a property of this class whose value is of this option; nothing: it cannot
// end then.
std::optional<JsonAlternative> after_property(const JsonAlternative& a, const NameClass& c,
                                              const ChildOption& option) {
  const ObjectShape& shape = *a.object;
  JsonAlternative after = a;
  if (c.name != NameClass::kMany) {
    after.seen.set(c.name);
    if (shape.ordered) after.next_name = c.name + 1;
    if (is_required(shape, c.name)) --after.missing;
  }
  if (after.count < shape.min_properties || shape.max_properties != kUnbounded) ++after.count;
  if (!gain(after, shape.conditions, option.gains) || !object_hopeful(after)) return std::nullopt;
  return after;
}

// A key of this class may come, and some value behind it leaves the object a way to end.
bool key_useful(const JsonAlternative& a, uint32_t name_class) {
  if (!key_allowed(a, name_class)) return false;
  if (a.object->conditions.empty()) return true;
  const NameClass& c = a.object->classes[name_class];
  return std::any_of(c.options.begin(), c.options.end(),
                     [&](const ChildOption& option) { return after_property(a, c, option).has_value(); });
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
  const bool plain = shape.conditions.empty();
  const bool unlisted = has_room(a, a.missing) && unlisted_left(shape, state, names, prefix);
  if (plain && unlisted) return true;
  const uint64_t* words = &shape.reach[state * shape.reach_words];
  for (size_t w = 0; w < shape.reach_words; ++w)
    for (uint64_t bits = words[w]; bits != 0; bits &= bits - 1) {
      const auto c = static_cast<uint32_t>(w * 64 + static_cast<size_t>(__builtin_ctzll(bits)));
      const bool many = shape.classes[c].name == NameClass::kMany;
      if ((!many || (!plain && unlisted)) && key_useful(a, c)) return true;
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
  const NameClass& c = a.object->classes[name_class];
  for (const ChildOption& option : c.options)
    if (auto after = after_property(a, c, option)) children.emplace_back(option.child, std::move(*after));
}

}  // namespace butterfly::model::grammar
