// gpt-oss: messages in channels. analysis is reasoning, final is for the reader, commentary with a recipient
// is a call:
// <|start|>assistant<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{...}<|call|>.
#include <utility>

#include "server/tools/call_text.h"
#include "server/tools/chat_family.h"

namespace butterfly::server {
namespace {

constexpr std::string_view kHarmonyStart = "<|start|>", kHarmonyChannel = "<|channel|>",
                           kHarmonyMessage = "<|message|>";
constexpr std::string_view kHarmonyEnds[] = {"<|end|>", "<|call|>", "<|return|>", kHarmonyStart};
constexpr size_t kHarmonyHeadBytesMax = 4096;             // more is no head
constexpr size_t kHarmonyCallBytesMax = size_t{1} << 20;  // more is no call

bool fits_harmony(std::string_view source) {
  return source.find(kHarmonyChannel) != std::string_view::npos &&
         source.find(kHarmonyStart) != std::string_view::npos;
}

// A head (role, recipient, channel, type of content) up to <|message|>, then a body up to an end.
class HarmonyParser : public OutputParser {
 public:
  explicit HarmonyParser(ToolSpecs tools) : tools_(std::move(tools)) {}

  ParsedText push(std::string_view text) override {
    held_ += text;
    ParsedText out;
    while (in_head_ ? end_head(out) : end_body(out)) {
    }
    return out;
  }

  ParsedText flush(bool cut) override {
    ParsedText out;
    if (!in_head_) {
      give(std::exchange(held_, {}), true, cut, out);
    } else if (held_.find(kHarmonyChannel) == held_.npos && held_.find("to=") == held_.npos &&
               !held_.starts_with(kHarmonyStart)) {
      out.text = std::exchange(held_, {});  // no head after all
    }
    return out;
  }

 private:
  enum class Kind { kReasoning, kWords, kCall };

  bool end_head(ParsedText& out) {
    const size_t at = held_.find(kHarmonyMessage);
    if (at == held_.npos) {
      if (held_.size() > kHarmonyHeadBytesMax) out.text += std::exchange(held_, {});
      return false;
    }
    const std::string head = held_.substr(0, at);
    held_.erase(0, at + kHarmonyMessage.size());
    in_head_ = false;
    const size_t to = head.find("to=functions.");
    recipient_.clear();
    if (to != head.npos) {
      const size_t begin = to + std::string_view("to=functions.").size();
      recipient_ = head.substr(begin, head.find_first_of(" <", begin) - begin);
    }
    kind_ = !recipient_.empty()                  ? Kind::kCall
            : head.find("analysis") != head.npos ? Kind::kReasoning
                                                 : Kind::kWords;
    return true;
  }

  bool end_body(ParsedText& out) {
    size_t at = held_.npos, length = 0, keep = 0;
    for (const std::string_view mark : kHarmonyEnds) {
      if (const size_t found = held_.find(mark); found < at) {
        at = found;
        length = mark.size();
      }
      keep = std::max(keep, begun(held_, mark));
    }
    if (at == held_.npos) {
      if (kind_ != Kind::kCall || held_.size() > kHarmonyCallBytesMax) {
        give(held_.substr(0, held_.size() - keep), false, false, out);
        held_.erase(0, held_.size() - keep);
      }
      return false;
    }
    give(held_.substr(0, at), true, false, out);
    held_.erase(0, at + length);
    in_head_ = true;
    return true;
  }

  void give(std::string body, bool whole, bool cut, ParsedText& out) {
    if (kind_ == Kind::kReasoning) {
      if (reasoned_ && !body.empty()) out.reasoning += std::exchange(reasoned_, false) ? "\n" : "";
      out.reasoning += body;
      if (whole) reasoned_ = true;  // another one begins on a line of its own
    } else if (kind_ == Kind::kWords) {
      out.text += body;
    } else {
      auto call = whole ? make_call(tools_, recipient_, std::string_view(body)) : std::nullopt;
      if (call) {
        out.calls.push_back(std::move(*call));
      } else if (!cut) {
        out.text += body;
      }
    }
  }

  const ToolSpecs tools_;
  std::string held_, recipient_;
  bool in_head_ = true, reasoned_ = false;
  Kind kind_ = Kind::kWords;
};

OutputParserPtr harmony_parser(ToolSpecs tools) { return std::make_unique<HarmonyParser>(std::move(tools)); }

}  // namespace

extern const ChatFamily kHarmonyFamily;
const ChatFamily kHarmonyFamily{"harmony", fits_harmony, kHarmonyChannel, harmony_parser, nullptr, true};

}  // namespace butterfly::server
