#include "model/grammar/json_seen.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "model/grammar/compile_budget.h"
#include "model/grammar/number_dfa.h"

namespace butterfly::model::grammar {

namespace {

using Json = nlohmann::json;
constexpr uint64_t kDifferenceStepsMax = 100'000;

// Equal values have equal spellings: keys sorted, numbers by value. As deep as the text, which is bounded.
void spell(const Json& value, std::string& out) {
  if (value.is_number()) {
    try {
      const Decimal number = parse_decimal(json_text(value));
      out += (number.negative ? "-" : "") + number.whole + "." + number.fraction;
    } catch (const Error&) {
      out += json_text(value);
    }
  } else if (value.is_array()) {
    out += '[';
    for (const Json& item : value) {
      spell(item, out);
      out += ',';
    }
    out += ']';
  } else if (value.is_object()) {
    out += '{';
    for (const auto& [key, item] : value.items()) {
      out += json_text(Json(key)) + ':';
      spell(item, out);
      out += ',';
    }
    out += '}';
  } else {
    out += json_text(value);
  }
}

}  // namespace

bool JsonSeenNames::has(std::string_view name) const {
  return std::binary_search(names.begin(), names.end(), name, std::less<>());
}

std::span<const std::string> JsonSeenNames::beginning_with(std::string_view prefix) const {
  const auto first = std::lower_bound(names.begin(), names.end(), prefix, std::less<>());
  const auto last =
      std::find_if_not(first, names.end(), [&](const std::string& n) { return n.starts_with(prefix); });
  return {first, last};
}

std::shared_ptr<const JsonSeenNames> JsonSeenNames::with(std::string_view name) const {
  auto out = std::make_shared<JsonSeenNames>();
  const auto at = std::lower_bound(names.begin(), names.end(), name, std::less<>());
  out->names.reserve(names.size() + 1);
  out->names.insert(out->names.end(), names.begin(), at);
  out->names.emplace_back(name);
  out->names.insert(out->names.end(), at, names.end());
  return out;
}

bool all_unique(const JsonFrame& frame) {
  return frame.seen && std::all_of(frame.pending.begin(), frame.pending.end(),
                                   [](const JsonFrame::Pending& p) { return p.after.array->unique; });
}

std::shared_ptr<const JsonSeenItems> with_item(const std::shared_ptr<const JsonSeenItems>& seen,
                                               std::string_view text) {
  const Json value = json_of_text_or_none<Json>(text);
  std::string spelling;
  spell(value, spelling);
  if (std::find(seen->values.begin(), seen->values.end(), spelling) != seen->values.end()) return seen;
  static std::atomic<uint64_t> made{0};
  auto out = std::make_shared<JsonSeenItems>(*seen);
  out->id = ++made;
  out->values.push_back(std::move(spelling));
  if (value.is_null()) out->simple |= kNull;
  if (value.is_boolean()) out->simple |= value.get<bool>() ? kTrue : kFalse;
  if (value.is_string()) out->texts.push_back(value.get<std::string>());
  if (value.is_number()) out->numbers.push_back(json_text(value));
  return out;
}

struct JsonMatcher::Differences {
  static constexpr size_t kMax = 64;
  static constexpr size_t kCellsMax = size_t{1} << 19;
  struct Entry {
    uint64_t dfa, seen;
    DfaPtr made;
  };
  std::mutex mutex;
  std::list<Entry> entries;  // latest first
  size_t cells = 0;          // of all

  size_t bytes() {
    const std::scoped_lock lock(mutex);
    return cells * sizeof(uint32_t);
  }
};

std::shared_ptr<JsonMatcher::Differences> JsonMatcher::make_differences() {
  return std::make_shared<Differences>();
}

size_t JsonMatcher::bytes() const { return sets_bytes_ + differences_->bytes(); }

DfaPtr JsonMatcher::without(const DfaPtr& dfa, const JsonSeenItems& seen, bool numbers) const {
  if (numbers ? seen.numbers.empty() : seen.texts.empty()) return dfa;
  const std::scoped_lock lock(differences_->mutex);
  auto& entries = differences_->entries;
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Differences::Entry& entry) {
    return entry.dfa == dfa->id && entry.seen == seen.id;
  });
  if (found != entries.end()) return found->made;
  DfaPtr made = dfa;
  try {
    const CompileBudget budget(kDifferenceStepsMax);  // a step of a model waits for this
    const auto subtract = [&](const Dfa& less) {
      const DfaFactor factors[] = {{made.get(), true}, {&less, false}};
      made = std::make_shared<const Dfa>(
          product(factors, [](std::span<const uint32_t> l) { return l[0] && !l[1] ? 1u : 0u; }));
    };
    if (!numbers) subtract(literal_dfa(seen.texts));
    if (numbers)
      for (const std::string& number : seen.numbers) {
        const Decimal value = parse_decimal(number);
        const std::string plain =
            (value.negative ? "-" : "") + value.whole + (value.fraction.empty() ? "" : "." + value.fraction);
        if (made->match(plain)) subtract(number_dfa(Relation::kEqual, value));
      }
  } catch (const Error&) {
    // Past the limits of automata: equal items are then found when they are whole.
  }
  entries.push_front({dfa->id, seen.id, made});
  differences_->cells += made->next.size();
  while (entries.size() > Differences::kMax ||
         (differences_->cells > Differences::kCellsMax && entries.size() > 1)) {
    differences_->cells -= entries.back().made->next.size();
    entries.pop_back();
  }
  return made;
}

// False if all values that the next item could be have been used.
bool JsonMatcher::item_possible(const JsonFrame& frame) const {
  for (const SetId goal : frame.goals) {
    const ValueSet& set = sets_[goal];
    if ((set.simple & ~frame.seen->simple) || !set.arrays.empty() || !set.objects.empty()) return true;
    for (const StringShape& shape : set.strings)
      if (!shape.finite || !without(shape.dfa, *frame.seen, false)->empty()) return true;
    for (const DfaPtr& numbers : set.numbers)
      if (!without(numbers, *frame.seen, true)->empty()) return true;
  }
  return false;
}

}  // namespace butterfly::model::grammar
