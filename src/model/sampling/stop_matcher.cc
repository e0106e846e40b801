#include "model/sampling/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace butterfly::model {

void StopMatcher::Pattern::advance(char c) {
  while (matched > 0 && text[matched] != c) matched = fallback[matched - 1];
  if (text[matched] == c) ++matched;
}

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  for (std::string& text : stops) {
    if (text.empty()) continue;
    Pattern pattern{std::move(text), {}};
    pattern.fallback.assign(pattern.text.size(), 0);
    for (size_t i = 1; i < pattern.text.size(); ++i) {
      size_t k = pattern.fallback[i - 1];
      while (k > 0 && pattern.text[k] != pattern.text[i]) k = pattern.fallback[k - 1];
      pattern.fallback[i] = k + (pattern.text[k] == pattern.text[i]);
    }
    patterns_.push_back(std::move(pattern));
  }
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped()) return {};
  for (const char c : text) {
    held_ += c;
    for (size_t i = 0; i < patterns_.size(); ++i) {
      Pattern& pattern = patterns_[i];
      pattern.advance(c);
      const bool complete = pattern.matched == pattern.text.size();
      if (complete && (!stop_ || pattern.text.size() > stop().size())) stop_ = i;
    }
    if (stopped()) {
      held_.resize(held_.size() - stop().size());
      return std::exchange(held_, {});
    }
  }
  size_t back = 0;
  for (const Pattern& pattern : patterns_) back = std::max(back, pattern.matched);
  std::string ready = held_.substr(0, held_.size() - back);
  held_.erase(0, ready.size());
  return ready;
}

std::string StopMatcher::flush() { return std::exchange(held_, {}); }

}  // namespace butterfly::model
