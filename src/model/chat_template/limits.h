// What one rendering may cost. A template comes with a model file, so it is input like any other.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace butterfly::model::chat_template {

struct Limits {
  size_t source_bytes = size_t{1} << 20;   // of the template
  uint64_t steps = 5'000'000;              // statements, expressions and elements touched
  uint64_t quick_steps = 0;                // after so many it is RenderingTakesLong; 0: never
  size_t output_bytes = size_t{16} << 20;  // of the rendering
  size_t value_bytes = size_t{64} << 20;   // of all texts and lists made on the way, together
  int depth = 1000;                        // of nested evaluation: each macro call takes a few levels
};

// Thrown where a rendering has taken more than the quick steps: whoever asked can ask again without that
// bound, on a thread that has the time.
struct RenderingTakesLong {};

// Lists in lists, and operators in one expression; bounds the recursion of everything that walks them.
inline constexpr int kValueDepthMax = 200;
inline constexpr int kExpressionDepthMax = 500;
inline constexpr int kNestingMax = 100;  // of brackets and of statements in the source

// What is left of the limits during one rendering. One thread.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void step(uint64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.quick_steps && limits_.quick_steps != 0) throw RenderingTakesLong{};
    if (steps_ > limits_.steps) fail(Errc::kInvalidArgument, "more than {} steps", limits_.steps);
  }
  // Called before a value of this size is made. Also a step per 64 bytes: making it takes time.
  void allocate(size_t bytes) {
    if (bytes > limits_.value_bytes || bytes_ + bytes > limits_.value_bytes)
      fail(Errc::kOutOfMemory, "more than {} bytes of values", limits_.value_bytes);
    bytes_ += bytes;
    step(bytes / 64);
  }
  // So many of this size.
  void allocate(size_t count, size_t each) {
    if (each != 0 && count > limits_.value_bytes / each)
      fail(Errc::kOutOfMemory, "more than {} bytes of values", limits_.value_bytes);
    allocate(count * each);
  }
  void output(size_t bytes) {
    output_ += bytes;
    if (output_ > limits_.output_bytes)
      fail(Errc::kOutOfMemory, "more than {} bytes of output", limits_.output_bytes);
  }

  // Held while something that can contain itself is evaluated.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      // Checked before it is counted: a constructor that throws has no destructor.
      if (budget_.depth_ >= budget_.limits_.depth)
        fail(Errc::kInvalidArgument, "nested deeper than {}", budget_.limits_.depth);
      ++budget_.depth_;
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  Limits limits_;
  uint64_t steps_ = 0;
  size_t bytes_ = 0;
  size_t output_ = 0;
  int depth_ = 0;
};

}  // namespace butterfly::model::chat_template
