#include "server/tools/marked_parser.h"

#include <algorithm>
#include <utility>

#include "server/tools/call_text.h"

namespace butterfly::server {
namespace {

constexpr size_t kCallBytesMax = size_t{1} << 20;  // more is no call
constexpr size_t kMarkBytesLeast = 3;              // of a mark that was cut: less may be anything
constexpr std::string_view kBlanks = " \t\r\n";

class MarkedParser : public OutputParser {
 public:
  MarkedParser(const CallMarks& marks, ReadCalls read, ToolSpecs tools)
      : marks_(marks), read_(read), tools_(std::move(tools)) {}

  ParsedText push(std::string_view text) override {
    held_ += text;
    ParsedText out;
    while (inside_ ? end_call(out) : begin_call(out)) {
    }
    return out;
  }

  ParsedText flush(bool cut) override {
    ParsedText out;
    if (inside_) {
      out.calls = read_(held_, tools_);
      if (out.calls.empty() && !cut) out.text = std::string(marks_.open) + held_;
    } else if (!cut || held_.size() < kMarkBytesLeast) {
      out.text = held_;
    }
    held_.clear();
    inside_ = false;
    return out;
  }

 private:
  bool begin_call(ParsedText& out) {
    const size_t at = held_.find(marks_.open);
    if (at == std::string::npos) {
      const size_t keep = begun(held_, marks_.open);
      out.text += held_.substr(0, held_.size() - keep);
      held_.erase(0, held_.size() - keep);
      return false;
    }
    out.text += held_.substr(0, at);
    held_.erase(0, at + marks_.open.size());
    inside_ = true;
    return true;
  }

  bool end_call(ParsedText& out) {
    // Without an end of their own calls end where the next one begins.
    const bool own = !marks_.close.empty();
    const size_t at = held_.find(own ? marks_.close : marks_.open);
    if (at == std::string::npos && held_.size() <= kCallBytesMax) return false;
    const std::string body = held_.substr(0, at);
    std::vector<ToolCall> calls = read_(body, tools_);
    const bool closed = own && at != std::string::npos;
    if (calls.empty()) {
      out.text += std::string(marks_.open) + body + std::string(closed ? marks_.close : "");
    } else {
      std::move(calls.begin(), calls.end(), std::back_inserter(out.calls));
    }
    held_.erase(0, at == std::string::npos ? at : at + (closed ? marks_.close.size() : 0));
    inside_ = false;
    return true;
  }

  const CallMarks marks_;
  const ReadCalls read_;
  const ToolSpecs tools_;
  std::string held_;
  bool inside_ = false;
};

class WholeParser : public OutputParser {
 public:
  WholeParser(std::string_view tag, ReadCalls read, ToolSpecs tools)
      : tag_(tag), read_(read), tools_(std::move(tools)) {}

  ParsedText push(std::string_view text) override {
    if (words_) return words(std::string(text));
    held_ += text;
    const std::string_view rest = call_part();
    const bool may_be = rest.empty() || rest.front() == '{' || rest.front() == '[' ||
                        (!tag_.empty() && begun(rest, tag_) == rest.size());
    words_ = !may_be || held_.size() > kCallBytesMax;
    return words_ ? words(std::exchange(held_, {})) : ParsedText{};
  }

  ParsedText flush(bool cut) override {
    ParsedText out;
    const std::string_view rest = call_part();
    if (!words_) out.calls = read_(rest, tools_);
    if (out.calls.empty() && !(cut && begins_call(rest))) out.text = held_;
    held_.clear();
    return out;
  }

 private:
  static ParsedText words(std::string text) {
    ParsedText out;
    out.text = std::move(text);
    return out;
  }
  std::string_view call_part() const {
    std::string_view text = trimmed(held_);
    if (!tag_.empty()) take_front(text, tag_);
    return trimmed(text);
  }
  // Other JSON that was cut is words.
  static bool begins_call(std::string_view text) {
    return !text.empty() && (text.find("\"name\"") < text.find(':') || text.size() < 8);
  }

  const std::string_view tag_;
  const ReadCalls read_;
  const ToolSpecs tools_;
  std::string held_;
  bool words_ = false;
};

class WordsParser : public OutputParser {
 public:
  ParsedText push(std::string_view text) override {
    ParsedText out;
    out.text = text;
    return out;
  }
  ParsedText flush(bool) override { return {}; }
};

class ReasoningParser : public OutputParser {
 public:
  ReasoningParser(const ReasoningMarks& marks, bool inside, OutputParserPtr then)
      : marks_(marks), then_(std::move(then)), place_(inside ? Place::kInside : Place::kBefore) {}

  ParsedText push(std::string_view text) override {
    if (place_ == Place::kAfter) return after(text);
    held_ += text;
    ParsedText out;
    if (place_ == Place::kBefore && !begin()) return out;
    if (place_ == Place::kInside) {
      const size_t at = held_.find(marks_.close);
      if (at == std::string::npos) {
        // Blanks at the end may be those before the mark.
        std::string certain = trimmed_end(held_.substr(0, held_.size() - begun(held_, marks_.close)));
        held_.erase(0, certain.size());
        give_reasoning(std::move(certain), out);
        return out;
      }
      give_reasoning(trimmed_end(held_.substr(0, at)), out);
      held_.erase(0, at + marks_.close.size());
      place_ = Place::kAfter;
    }
    out.append(after(std::exchange(held_, {})));
    return out;
  }

  ParsedText flush(bool cut) override {
    ParsedText out;
    if (place_ == Place::kInside) {
      give_reasoning(trimmed_end(std::exchange(held_, {})), out);
    } else {
      out = then_->push(std::exchange(held_, {}));
    }
    out.append(then_->flush(cut));
    return out;
  }

 private:
  enum class Place { kBefore, kInside, kAfter };

  // At the very beginning, but for blanks. False: not known yet.
  bool begin() {
    const std::string_view rest =
        std::string_view(held_).substr(std::min(held_.find_first_not_of(kBlanks), held_.size()));
    if (rest.starts_with(marks_.open)) {
      held_ = std::string(rest.substr(marks_.open.size()));
      place_ = Place::kInside;
      return true;
    }
    if (rest.empty() || begun(rest, marks_.open) == rest.size()) return false;
    place_ = Place::kAfter;
    words_began_ = true;  // nothing was reasoned: the text is as it is
    return true;
  }

  ParsedText after(std::string_view text) {
    if (!words_began_) {
      text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
      words_began_ = !text.empty();
    }
    return text.empty() ? ParsedText{} : then_->push(text);
  }

  void give_reasoning(std::string text, ParsedText& out) {
    if (!reasoning_began_) {
      text.erase(0, std::min(text.find_first_not_of(kBlanks), text.size()));
      reasoning_began_ = !text.empty();
    }
    out.reasoning += text;
  }
  static std::string trimmed_end(std::string text) {
    text.erase(text.find_last_not_of(kBlanks) + 1);
    return text;
  }

  const ReasoningMarks marks_;
  const OutputParserPtr then_;
  Place place_;
  std::string held_;
  bool reasoning_began_ = false, words_began_ = false;
};

}  // namespace

OutputParserPtr marked_parser(const CallMarks& marks, ReadCalls read, ToolSpecs tools) {
  return std::make_unique<MarkedParser>(marks, read, std::move(tools));
}

OutputParserPtr whole_parser(std::string_view tag, ReadCalls read, ToolSpecs tools) {
  return std::make_unique<WholeParser>(tag, read, std::move(tools));
}

OutputParserPtr words_parser() { return std::make_unique<WordsParser>(); }

OutputParserPtr reasoning_parser(const ReasoningMarks& marks, bool inside, OutputParserPtr then) {
  return std::make_unique<ReasoningParser>(marks, inside, std::move(then));
}

}  // namespace butterfly::server
