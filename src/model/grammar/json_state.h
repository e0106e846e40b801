// One place in a JSON text under a schema: what has been read, and what each alternative still asks for.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/grammar/schema_sets.h"
#include "model/grammar/string_escape.h"

namespace butterfly::model::grammar {

// Bits of which most users need 64.
class SmallBits {
 public:
  bool test(uint32_t i) const {
    return i < 64 ? first_ >> i & 1 : i / 64 <= rest_.size() && rest_[i / 64 - 1] >> (i % 64) & 1;
  }
  void set(uint32_t i) {
    if (i < 64) {
      first_ |= uint64_t{1} << i;
      return;
    }
    if (rest_.size() < i / 64) rest_.resize(i / 64, 0);
    rest_[i / 64 - 1] |= uint64_t{1} << (i % 64);
  }
  bool operator==(const SmallBits&) const = default;

 private:
  uint64_t first_ = 0;
  std::vector<uint64_t> rest_;
};

// One way to see the array or object that is being read.
struct JsonAlternative {
  uint32_t goal = 0;  // of the goals of the place where the container stands
  const ArrayShape* array = nullptr;
  const ObjectShape* object = nullptr;
  uint64_t count = 0;      // children so far
  uint32_t missing = 0;    // required names not seen
  uint32_t next_name = 0;  // for ordered objects: names below have had their turn
  SmallBits seen;          // names
  std::array<uint32_t, 4> gained{};

  bool operator==(const JsonAlternative&) const = default;
};

// The items of an array that must all differ.
struct JsonSeenItems {
  uint64_t id = 0;                   // of its own, for caches
  std::vector<std::string> values;   // in one spelling
  uint8_t simple = 0;                // of kNull, kFalse, kTrue
  std::vector<std::string> texts;    // those that are strings
  std::vector<std::string> numbers;  // and numbers
};

// The names that an object has so far, sorted.
struct JsonSeenNames {
  std::vector<std::string> names;

  bool has(std::string_view name) const;
  std::span<const std::string> beginning_with(std::string_view prefix) const;
  std::shared_ptr<const JsonSeenNames> with(std::string_view name) const;
};

// A container around the place. Shared by all texts that passed through it, never changed.
struct JsonFrame {
  struct Pending {
    uint32_t goal = 0;      // of `goals`
    JsonAlternative after;  // what the alternative becomes if the child is of that goal
  };
  bool object = false;
  uint32_t depth = 0;
  std::vector<JsonAlternative> alternatives;  // between children
  std::vector<Pending> pending;               // while a child is read
  std::vector<SetId> goals;                   // sets the child may be of, each once
  std::shared_ptr<const JsonFrame> parent;    // the frame whose child this container is; null: none
  // Of an object that may have names which no shape lists; null: shapes remember the names.
  std::shared_ptr<const JsonSeenNames> names;

  // Only in and below arrays whose items must differ.
  bool recorded = false;                      // the text is kept in JsonState::recorded
  size_t child_from = 0;                      // where in it the child begins
  std::shared_ptr<const JsonSeenItems> seen;  // items so far; null: they may be equal
};

struct JsonThread {
  const Dfa* dfa = nullptr;
  const StringShape* shape = nullptr;  // of a string
  uint32_t state = 0;
  uint32_t who = 0;  // goal of a value, alternative of a key
};

enum class JsonPhase : uint8_t {
  kValue,      // a value begins
  kFirstItem,  // a value or ]
  kFirstKey,   // a key or }
  kNextKey,    // a key
  kColon,
  kAfterChild,  // , or the end of the container
  kString,
  kKey,
  kNumber,
  kWord,     // true, false, null
  kFree,     // any text, until the envelope begins
  kBegin,    // the text before the value
  kEnd,      // the text behind it
  kBetween,  // the text between two values
  kDone,
};

// How JSON is written. Every value can be written in each of them.
enum class JsonStyle : uint8_t {
  kFree,     // white space and escapes as JSON has them
  kCompact,  // no white space, escapes only where they must be
  kSpaced,   // the same, but a blank may stand behind ':' and ','
};

// What stands around the value. With nothing in it, the text is the value alone.
struct JsonEnvelope {
  std::string begin, end, between;
  bool repeated = false;  // another value may follow
  bool lazy = false;      // free text before, and between values that are repeated
  JsonStyle style = JsonStyle::kFree;
};

struct JsonState {
  JsonPhase phase = JsonPhase::kValue;
  uint8_t blanks = 0, breaks = 0;  // white space in this place
  uint8_t word = 0, word_at = 0;   // of kNull, kFalse, kTrue
  uint32_t text_at = 0;            // bytes of the envelope's current text
  uint8_t tail = 0;                // bytes of the string's last character that are still to come
  StringEscape escape;
  uint64_t characters = 0;   // of the string
  std::string key;           // its text, where the frame remembers names
  bool key_unknown = false;  // how the key ends is known, and its text is not
  std::shared_ptr<const JsonFrame> frame;
  std::vector<JsonThread> threads;
  std::vector<DfaPtr> own_dfas;  // automata of threads that no shape keeps
  std::string recorded;          // the text from the outermost array whose items must differ
};

// Follows texts under one schema. Immutable.
class JsonMatcher {
 public:
  explicit JsonMatcher(SchemaSets sets, JsonEnvelope envelope = {});

  JsonState start() const;
  // False: the byte does not fit, and the state is of no more use. True: some text completes it.
  bool step(JsonState& state, uint8_t byte) const;
  bool can_end(const JsonState& state) const;
  // Ends the string or key of `state` as if each thread stood where `labels` says (0: it does not accept).
  bool close(JsonState& state, std::span<const uint32_t> labels) const;
  // Whether the key of an alternative may go on from any live state of its automaton.
  static bool key_is_open(const JsonAlternative& alternative);
  // In free text: how much of the envelope's begin the text ends with after one more byte.
  uint32_t free_step(uint32_t matched, uint8_t byte) const;
  const JsonEnvelope& envelope() const { return envelope_; }
  bool plain_escapes() const { return envelope_.style != JsonStyle::kFree; }
  size_t bytes() const;  // in memory, about

 private:
  JsonState before_value() const;
  bool envelope_byte(JsonState& state, uint8_t byte) const;
  bool blank(JsonState& state, uint8_t byte) const;
  bool end_root(JsonState& state) const;
  bool step_inside(JsonState& state, uint8_t byte) const;
  bool begin_value(JsonState& state, uint8_t byte) const;
  bool begin_text(JsonState& state) const;
  bool begin_number(JsonState& state, uint8_t byte) const;
  bool begin_word(JsonState& state, uint8_t byte) const;
  bool begin_container(JsonState& state, bool object) const;
  bool begin_item(JsonState& state) const;
  bool begin_key(JsonState& state) const;
  bool after_child(JsonState& state, uint8_t byte) const;
  bool end_container(JsonState& state) const;
  bool end_value(JsonState& state, const std::vector<uint8_t>& satisfied) const;
  bool text_byte(JsonState& state, uint8_t byte) const;
  bool text_bytes(JsonState& state, std::string_view bytes, bool begins_character) const;
  // Whether a thread may go on from state `q`, with so many characters, and a key that is not among `names`.
  bool thread_alive(const JsonState& state, const JsonThread& thread, uint32_t q, uint64_t characters,
                    const JsonSeenNames* names) const;
  bool close_key(JsonState& state, std::span<const uint32_t> labels) const;
  bool number_byte(JsonState& state, uint8_t byte) const;
  struct Differences;  // the last ones that follow
  // The automaton without the strings, or numbers, that are seen.
  DfaPtr without(const DfaPtr& dfa, const JsonSeenItems& seen, bool numbers) const;
  static std::shared_ptr<Differences> make_differences();
  bool item_possible(const JsonFrame& frame) const;
  bool await(JsonState& state, std::vector<std::pair<SetId, JsonAlternative>> children,
             std::shared_ptr<const JsonSeenNames> names = nullptr) const;

  SchemaSets sets_;
  size_t sets_bytes_;
  JsonEnvelope envelope_;
  std::vector<uint32_t> fallback_;  // [matched]: the longest shorter match that the text also ends with
  std::shared_ptr<const JsonFrame> root_;
  std::shared_ptr<Differences> differences_;
};

}  // namespace butterfly::model::grammar
