// Ends a stream of text at stop strings, also where one spans several pieces.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace butterfly::model {

// Feed text as it comes. What is returned never contains a stop string or a part of one that later text could
// complete: the longest end of the text that begins a stop string is held back. The stop string that is
// completed first counts (of several completed by the same byte the longest), and nothing from its first byte
// on is returned.
//
// Time is linear in the text for each stop string. One thread.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);  // empty strings are left out

  // Text that can be shown. Empty once stopped().
  std::string push(std::string_view text);
  // The end of the stream: what was held back is plain text after all.
  std::string flush();

  bool stopped() const { return stop_.has_value(); }
  // The stop string that was found; only when stopped().
  const std::string& stop() const { return patterns_[*stop_].text; }

 private:
  // Knuth, Morris and Pratt: how much of `text` the stream's end matches, byte by byte.
  struct Pattern {
    std::string text;
    std::vector<size_t> fallback;  // longest proper prefix of text[0, i] that is also its suffix
    size_t matched = 0;
    void advance(char c);
  };

  std::vector<Pattern> patterns_;
  std::string held_;
  std::optional<size_t> stop_;  // index of the pattern that was found
};

}  // namespace butterfly::model
