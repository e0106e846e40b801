#include <algorithm>
#include <array>

#include "model/grammar/json_alternative.h"
#include "model/grammar/json_seen.h"
#include "model/grammar/json_state.h"
#include "model/grammar/limits.h"

namespace butterfly::model::grammar {

namespace {

struct Word {
  uint8_t bit;
  std::string_view text;
};
constexpr Word kWords[] = {{kNull, "null"}, {kFalse, "false"}, {kTrue, "true"}};

bool is_blank(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

void enter(JsonState& state, JsonPhase phase) {
  state.phase = phase;
  state.blanks = state.breaks = 0;
}

std::shared_ptr<const JsonSeenNames> no_names() {
  static const auto none = std::make_shared<const JsonSeenNames>();
  return none;
}

std::shared_ptr<JsonFrame> child_frame(const JsonFrame& of) {
  auto frame = std::make_shared<JsonFrame>();
  frame->object = of.object;
  frame->depth = of.depth;
  frame->parent = of.parent;
  frame->recorded = of.recorded;
  frame->names = of.names;
  return frame;
}

}  // namespace

JsonMatcher::JsonMatcher(SchemaSets sets, JsonEnvelope envelope)
    : sets_(std::move(sets)),
      sets_bytes_(sets_.bytes()),
      envelope_(std::move(envelope)),
      differences_(make_differences()) {
  auto frame = std::make_shared<JsonFrame>();
  frame->goals = {sets_.root()};
  root_ = std::move(frame);
  // As in the search of Knuth, Morris and Pratt.
  const std::string& text = envelope_.begin;
  fallback_.assign(text.size() + 1, 0);
  for (size_t i = 1, k = 0; i < text.size(); ++i) {
    while (k > 0 && text[i] != text[k]) k = fallback_[k];
    if (text[i] == text[k]) ++k;
    fallback_[i + 1] = static_cast<uint32_t>(k);
  }
}

uint32_t JsonMatcher::free_step(uint32_t matched, uint8_t byte) const {
  const std::string& text = envelope_.begin;
  while (matched > 0 && static_cast<uint8_t>(text[matched]) != byte) matched = fallback_[matched];
  return static_cast<uint8_t>(text[matched]) == byte ? matched + 1 : 0;
}

bool JsonMatcher::blank(JsonState& state, uint8_t byte) const {
  switch (envelope_.style) {
    case JsonStyle::kCompact:
      return false;
    case JsonStyle::kSpaced: {
      const bool behind_mark =
          state.phase == JsonPhase::kNextKey || (state.phase == JsonPhase::kValue && state.frame->depth > 0);
      return behind_mark && byte == ' ' && ++state.blanks == 1;
    }
    case JsonStyle::kFree:
      break;
  }
  // Bounded, or a model that likes blanks would never come to an end.
  if (byte == '\n' && ++state.breaks > kLineBreaksMax) return false;
  const auto indent = static_cast<int>(kBlanksInLineMax * (1 + state.frame->depth));
  return ++state.blanks <= (state.breaks > 0 ? std::min(indent, kBlanksMax) : kBlanksInLineMax);
}

JsonState JsonMatcher::before_value() const {
  JsonState state;
  state.frame = root_;
  if (envelope_.lazy)
    state.phase = JsonPhase::kFree;
  else if (!envelope_.begin.empty())
    state.phase = JsonPhase::kBegin;
  return state;
}

JsonState JsonMatcher::start() const { return before_value(); }

bool JsonMatcher::envelope_byte(JsonState& state, uint8_t byte) const {
  if (state.phase == JsonPhase::kFree) {
    state.text_at = free_step(state.text_at, byte);
    if (state.text_at == envelope_.begin.size()) enter(state, JsonPhase::kValue);
    return true;
  }
  const std::string& text = state.phase == JsonPhase::kBegin ? envelope_.begin
                            : state.phase == JsonPhase::kEnd ? envelope_.end
                                                             : envelope_.between;
  if (byte != static_cast<uint8_t>(text[state.text_at])) return false;
  if (++state.text_at < text.size()) return true;
  state.text_at = 0;
  switch (state.phase) {
    case JsonPhase::kBegin:
      enter(state, JsonPhase::kValue);
      return true;
    case JsonPhase::kBetween:
      enter(state, envelope_.begin.empty() ? JsonPhase::kValue : JsonPhase::kBegin);
      return true;
    default:
      return end_root(state);
  }
}

// Behind a value and its envelope.
bool JsonMatcher::end_root(JsonState& state) const {
  if (!envelope_.repeated)
    enter(state, JsonPhase::kDone);
  else if (envelope_.lazy)
    state = before_value();
  else
    enter(state, envelope_.between.empty() ? JsonPhase::kBegin : JsonPhase::kBetween);
  return true;
}

bool JsonMatcher::step(JsonState& state, uint8_t byte) const {
  if (!state.frame->recorded) return step_inside(state, byte);
  state.recorded.push_back(static_cast<char>(byte));
  if (!step_inside(state, byte)) return false;
  if (!state.frame->recorded) state.recorded.clear();
  return true;
}

bool JsonMatcher::step_inside(JsonState& state, uint8_t byte) const {
  switch (state.phase) {
    case JsonPhase::kString:
    case JsonPhase::kKey:
      return text_byte(state, byte);
    case JsonPhase::kNumber:
      return number_byte(state, byte);
    case JsonPhase::kWord: {
      const Word& word = *std::find_if(std::begin(kWords), std::end(kWords),
                                       [&](const Word& w) { return w.bit == state.word; });
      if (byte != static_cast<uint8_t>(word.text[state.word_at])) return false;
      if (++state.word_at < word.text.size()) return true;
      std::vector<uint8_t> satisfied;
      for (const SetId goal : state.frame->goals) satisfied.push_back((sets_[goal].simple & state.word) != 0);
      return end_value(state, satisfied);
    }
    case JsonPhase::kFree:
    case JsonPhase::kBegin:
    case JsonPhase::kEnd:
    case JsonPhase::kBetween:
      return envelope_byte(state, byte);
    case JsonPhase::kDone:
      return false;
    default:
      break;
  }
  if (is_blank(byte)) return blank(state, byte);
  switch (state.phase) {
    case JsonPhase::kFirstItem:
      if (byte == ']') return end_container(state);
      if (!begin_item(state)) return false;
      return begin_value(state, byte);
    case JsonPhase::kValue:
      return begin_value(state, byte);
    case JsonPhase::kFirstKey:
      if (byte == '}') return end_container(state);
      [[fallthrough]];
    case JsonPhase::kNextKey:
      return byte == '"' && begin_key(state);
    case JsonPhase::kColon:
      enter(state, JsonPhase::kValue);
      return byte == ':';
    case JsonPhase::kAfterChild:
      return after_child(state, byte);
    default:
      return false;
  }
}

bool JsonMatcher::can_end(const JsonState& state) const {
  if (state.phase == JsonPhase::kDone || state.phase == JsonPhase::kFree) return true;
  if (state.phase == JsonPhase::kBetween && state.text_at == 0) return true;
  if (!envelope_.end.empty() || state.phase != JsonPhase::kNumber || state.frame->parent ||
      state.frame->depth != 0)
    return false;
  return std::any_of(state.threads.begin(), state.threads.end(),
                     [](const JsonThread& t) { return t.dfa->label[t.state] != 0; });
}

bool JsonMatcher::begin_value(JsonState& state, uint8_t byte) const {
  switch (byte) {
    case '"':
      return begin_text(state);
    case '{':
      return begin_container(state, true);
    case '[':
      return begin_container(state, false);
    case 'n':
    case 't':
    case 'f':
      return begin_word(state, byte);
    default:
      return begin_number(state, byte);
  }
}

bool JsonMatcher::begin_text(JsonState& state) const {
  enter(state, JsonPhase::kString);
  state.escape.reset(plain_escapes());
  state.tail = 0;
  state.characters = 0;
  state.threads.clear();
  state.own_dfas.clear();
  const JsonSeenItems* seen = all_unique(*state.frame) ? state.frame->seen.get() : nullptr;
  for (uint32_t g = 0; g < state.frame->goals.size(); ++g)
    for (const StringShape& shape : sets_[state.frame->goals[g]].strings) {
      const DfaPtr dfa = seen && shape.finite ? without(shape.dfa, *seen, false) : shape.dfa;
      if (dfa->empty()) continue;
      state.threads.push_back({dfa.get(), &shape, dfa->start, g});
      if (seen) state.own_dfas.push_back(dfa);
    }
  return !state.threads.empty();
}

bool JsonMatcher::begin_number(JsonState& state, uint8_t byte) const {
  enter(state, JsonPhase::kNumber);
  state.threads.clear();
  state.own_dfas.clear();
  const JsonSeenItems* seen = all_unique(*state.frame) ? state.frame->seen.get() : nullptr;
  for (uint32_t g = 0; g < state.frame->goals.size(); ++g)
    for (const DfaPtr& numbers : sets_[state.frame->goals[g]].numbers) {
      const DfaPtr dfa = seen ? without(numbers, *seen, true) : numbers;
      const uint32_t q = dfa->step(dfa->start, byte);
      if (q == 0) continue;
      state.threads.push_back({dfa.get(), nullptr, q, g});
      if (seen) state.own_dfas.push_back(dfa);
    }
  return !state.threads.empty();
}

bool JsonMatcher::begin_word(JsonState& state, uint8_t byte) const {
  for (const Word& word : kWords) {
    if (static_cast<uint8_t>(word.text[0]) != byte) continue;
    if (all_unique(*state.frame) && state.frame->seen->simple & word.bit) return false;
    enter(state, JsonPhase::kWord);
    state.word = word.bit;
    state.word_at = 1;
    return std::any_of(state.frame->goals.begin(), state.frame->goals.end(),
                       [&](SetId goal) { return (sets_[goal].simple & word.bit) != 0; });
  }
  return false;
}

bool JsonMatcher::begin_container(JsonState& state, bool object) const {
  if (state.frame->depth >= kDepthMax) return false;
  auto frame = std::make_shared<JsonFrame>();
  frame->object = object;
  frame->depth = state.frame->depth + 1;
  for (uint32_t g = 0; g < state.frame->goals.size(); ++g) {
    const ValueSet& set = sets_[state.frame->goals[g]];
    if (object)
      for (const ObjectShape& shape : set.objects) frame->alternatives.push_back(first_alternative(g, shape));
    else
      for (const ArrayShape& shape : set.arrays) frame->alternatives.push_back(first_alternative(g, shape));
  }
  if (frame->alternatives.empty()) return false;
  const bool unique = !object && std::any_of(frame->alternatives.begin(), frame->alternatives.end(),
                                             [](const JsonAlternative& a) { return a.array->unique; });
  if (unique) frame->seen = std::make_shared<const JsonSeenItems>();
  if (object && std::any_of(frame->alternatives.begin(), frame->alternatives.end(),
                            [](const JsonAlternative& a) { return a.object->open; }))
    frame->names = no_names();
  frame->recorded = unique || state.frame->recorded;
  frame->parent = std::move(state.frame);
  state.frame = std::move(frame);
  enter(state, object ? JsonPhase::kFirstKey : JsonPhase::kFirstItem);
  return true;
}

bool JsonMatcher::await(JsonState& state, JsonChildren children,
                        std::shared_ptr<const JsonSeenNames> names) const {
  if (children.empty()) return false;
  auto frame = child_frame(*state.frame);
  if (names) frame->names = std::move(names);
  frame->seen = state.frame->seen;
  // The first item has begun already.
  frame->child_from = state.recorded.size() - (state.phase == JsonPhase::kFirstItem ? 1 : 0);
  for (auto& [set, after] : children) {
    const auto found = std::find(frame->goals.begin(), frame->goals.end(), set);
    const auto goal = static_cast<uint32_t>(found - frame->goals.begin());
    if (found == frame->goals.end()) frame->goals.push_back(set);
    frame->pending.push_back({goal, std::move(after)});
  }
  state.frame = std::move(frame);
  return true;
}

bool JsonMatcher::begin_item(JsonState& state) const {
  JsonChildren children;
  for (const JsonAlternative& alternative : state.frame->alternatives) add_item(alternative, children);
  if (!await(state, std::move(children))) return false;
  enter(state, JsonPhase::kValue);
  return !all_unique(*state.frame) || item_possible(*state.frame);
}

bool JsonMatcher::begin_key(JsonState& state) const {
  enter(state, JsonPhase::kKey);
  state.escape.reset(plain_escapes());
  state.tail = 0;
  state.characters = 0;
  state.key.clear();
  state.key_unknown = false;
  state.threads.clear();
  const auto& alternatives = state.frame->alternatives;
  for (uint32_t i = 0; i < alternatives.size(); ++i) {
    const Dfa& keys = *alternatives[i].object->keys;
    if (keys.start != 0 && key_possible(alternatives[i], keys.start, state.frame->names.get(), ""))
      state.threads.push_back({&keys, nullptr, keys.start, i});
  }
  return !state.threads.empty();
}

bool JsonMatcher::after_child(JsonState& state, uint8_t byte) const {
  const bool object = state.frame->object;
  if (byte == (object ? '}' : ']')) return end_container(state);
  if (byte != ',') return false;
  if (!object) return begin_item(state);
  // Another key must be possible.
  for (const JsonAlternative& alternative : state.frame->alternatives) {
    const uint32_t start = alternative.object->keys->start;
    if (start != 0 && key_possible(alternative, start, state.frame->names.get(), "")) {
      enter(state, JsonPhase::kNextKey);
      return true;
    }
  }
  return false;
}

bool JsonMatcher::end_container(JsonState& state) const {
  const std::shared_ptr<const JsonFrame> container = std::move(state.frame);
  state.frame = container->parent;
  std::vector<uint8_t> satisfied(state.frame->goals.size(), 0);
  bool any = false;
  for (const JsonAlternative& alternative : container->alternatives)
    if (may_close(alternative)) satisfied[alternative.goal] = any = true;
  return any && end_value(state, satisfied);
}

bool JsonMatcher::end_value(JsonState& state, const std::vector<uint8_t>& satisfied) const {
  const JsonFrame& awaiting = *state.frame;
  state.threads.clear();
  if (awaiting.depth == 0) {
    if (!satisfied[0]) return false;
    if (envelope_.end.empty()) return end_root(state);
    state.text_at = 0;
    enter(state, JsonPhase::kEnd);
    return true;
  }
  auto frame = child_frame(awaiting);
  bool repeated = false;
  if (awaiting.seen) {
    // A number ends at the byte behind it.
    const size_t end = state.recorded.size() - (state.phase == JsonPhase::kNumber ? 1 : 0);
    frame->seen =
        with_item(awaiting.seen,
                  std::string_view(state.recorded).substr(awaiting.child_from, end - awaiting.child_from));
    repeated = frame->seen == awaiting.seen;
  }
  for (const JsonFrame::Pending& pending : awaiting.pending) {
    if (!satisfied[pending.goal] || (repeated && pending.after.array->unique)) continue;
    auto& alternatives = frame->alternatives;
    if (std::find(alternatives.begin(), alternatives.end(), pending.after) == alternatives.end())
      alternatives.push_back(pending.after);
  }
  if (frame->alternatives.empty()) return false;
  state.frame = std::move(frame);
  enter(state, JsonPhase::kAfterChild);
  return true;
}

bool JsonMatcher::number_byte(JsonState& state, uint8_t byte) const {
  if (is_blank(byte) || byte == ',' || byte == ']' || byte == '}') {
    if (state.frame->depth == 0) return false;
    std::vector<uint8_t> satisfied(state.frame->goals.size(), 0);
    for (const JsonThread& thread : state.threads)
      if (thread.dfa->label[thread.state] != 0) satisfied[thread.who] = 1;
    return end_value(state, satisfied) && (is_blank(byte) ? blank(state, byte) : after_child(state, byte));
  }
  size_t kept = 0;
  for (JsonThread& thread : state.threads) {
    thread.state = thread.dfa->step(thread.state, byte);
    if (thread.state != 0) state.threads[kept++] = thread;
  }
  state.threads.resize(kept);
  return kept > 0;
}

bool JsonMatcher::thread_alive(const JsonState& state, const JsonThread& thread, uint32_t q,
                               uint64_t characters, const JsonSeenNames* names) const {
  if (q == 0) return false;
  if (state.phase == JsonPhase::kKey)
    return key_possible(state.frame->alternatives[thread.who], q, names, state.key);
  return characters <= thread.shape->max_length;
}

bool JsonMatcher::text_bytes(JsonState& state, std::string_view bytes, bool begins_character) const {
  if (begins_character) ++state.characters;
  const JsonSeenNames* names = state.phase == JsonPhase::kKey ? state.frame->names.get() : nullptr;
  if (names) state.key += bytes;
  size_t kept = 0;
  for (JsonThread& thread : state.threads) {
    thread.state = thread.dfa->run(thread.state, bytes);
    if (thread_alive(state, thread, thread.state, state.characters, names)) state.threads[kept++] = thread;
  }
  state.threads.resize(kept);
  return kept > 0;
}

bool JsonMatcher::text_byte(JsonState& state, uint8_t byte) const {
  if (!state.escape.active()) {
    if (byte == '"') {
      std::array<uint32_t, 8> few;
      std::vector<uint32_t> many;
      std::span<uint32_t> labels = few;
      if (state.threads.size() > few.size()) {
        many.resize(state.threads.size());
        labels = many;
      }
      for (size_t i = 0; i < state.threads.size(); ++i)
        labels[i] = state.threads[i].dfa->label[state.threads[i].state];
      return close(state, labels.first(state.threads.size()));
    }
    if (byte < 0x20) return false;
    if (byte != '\\') {
      // The automata see to it that the bytes are UTF-8.
      if ((byte & 0xC0) == 0x80)
        --state.tail;
      else
        state.tail = byte < 0x80 ? 0 : byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
      const char c = static_cast<char>(byte);
      return text_bytes(state, {&c, 1}, (byte & 0xC0) != 0x80);
    }
    // An escape stands for a whole character, so none may be open.
    state.escape.begin();
  } else {
    uint32_t character = 0;
    const auto result = state.escape.feed(byte, character);
    if (result == StringEscape::Result::kBad) return false;
    if (result == StringEscape::Result::kCharacter) {
      std::string bytes;
      append_utf8(character, bytes);
      return text_bytes(state, bytes, true);
    }
  }
  // Some end of the escape must be possible.
  return state.escape.can_end([&](uint32_t first, uint32_t last) {
    return std::any_of(state.threads.begin(), state.threads.end(), [&](const JsonThread& thread) {
      return reaches(*thread.dfa, thread.state, first, last, [&](uint32_t q) {
        // Which character it becomes is open, and with it the key: names are not asked.
        return thread_alive(state, thread, q, state.characters + 1, nullptr);
      });
    });
  });
}

bool JsonMatcher::close(JsonState& state, std::span<const uint32_t> labels) const {
  if (state.phase == JsonPhase::kKey) return close_key(state, labels);
  std::vector<uint8_t> satisfied(state.frame->goals.size(), 0);
  bool any = false;
  for (size_t i = 0; i < labels.size(); ++i) {
    const JsonThread& thread = state.threads[i];
    if (labels[i] == 0 || state.characters < thread.shape->min_length) continue;
    satisfied[thread.who] = any = true;
  }
  return any && end_value(state, satisfied);
}

bool JsonMatcher::close_key(JsonState& state, std::span<const uint32_t> labels) const {
  const JsonSeenNames* names = state.key_unknown ? nullptr : state.frame->names.get();
  const bool repeated = names && names->has(state.key);
  JsonChildren children;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == 0) continue;
    const JsonAlternative& alternative = state.frame->alternatives[state.threads[i].who];
    // Readers of JSON keep one of two equal names, or refuse the text.
    if (repeated && alternative.object->classes[labels[i] - 1].name == NameClass::kMany) continue;
    add_property(alternative, labels[i] - 1, children);
  }
  if (!await(state, std::move(children), names && !repeated ? names->with(state.key) : nullptr)) return false;
  state.threads.clear();
  enter(state, JsonPhase::kColon);
  return true;
}

bool JsonMatcher::key_is_open(const JsonAlternative& alternative) {
  const ObjectShape& shape = *alternative.object;
  return shape.all_open && shape.max_properties == kUnbounded;
}

}  // namespace butterfly::model::grammar
