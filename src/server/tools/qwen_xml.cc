// Qwen3-Coder, Qwen 3.5, Nemotron 3:
// <tool_call><function=NAME><parameter=KEY>value</parameter>...</function></tool_call>.
#include <nlohmann/json.hpp>

#include "server/tools/call_text.h"
#include "server/tools/chat_family.h"

namespace butterfly::server {
namespace {

constexpr CallMarks kQwenXmlMarks{"<tool_call>", "</tool_call>"};

bool fits_qwen_xml(std::string_view source) {
  return source.find("<function=") != std::string_view::npos &&
         source.find("<parameter=") != std::string_view::npos;
}

// A value stands on lines of its own: the line breaks at its ends are not part of it.
std::string_view without_breaks(std::string_view text) {
  take_front(text, "\n");
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

std::vector<ToolCall> read_qwen_xml(std::string_view body, const ToolSpecs& tools) {
  std::vector<ToolCall> calls;
  while (!trimmed(body).empty()) {
    if (!take_until(body, "<function=")) return {};
    const auto name_text = take_until(body, ">");
    if (!name_text) return {};
    const std::string name(trimmed(*name_text));
    // The last end: values may hold anything.
    size_t end = body.find("</function>");
    for (size_t next = body.find("<function=", end); end != body.npos;) {
      const size_t later = body.find("</function>", end + 1);
      if (later == body.npos || later > next) break;
      end = later;
    }
    std::string_view inner = body.substr(0, end);
    body = end == body.npos ? std::string_view() : body.substr(end + std::string_view("</function>").size());
    Json arguments = Json::object();
    while (take_until(inner, "<parameter=")) {
      const auto key = take_until(inner, ">");
      if (!key) return {};
      // Some leave out the end of the last one.
      std::string_view rest = inner;
      auto value = take_until(rest, "</parameter>");
      if (!value) {
        value = inner;
        rest = {};
      }
      inner = rest;
      const std::string parameter(trimmed(*key));
      arguments[parameter] = plain_value(tools, name, parameter, without_breaks(*value));
    }
    auto call = make_call(tools, name, std::move(arguments));
    if (!call) return {};
    calls.push_back(std::move(*call));
  }
  return calls;
}

OutputParserPtr qwen_xml_parser(ToolSpecs tools) {
  return marked_parser(kQwenXmlMarks, read_qwen_xml, std::move(tools));
}

}  // namespace

extern const ChatFamily kQwenXmlFamily;
const ChatFamily kQwenXmlFamily{"qwen_xml", fits_qwen_xml, kQwenXmlMarks.open, qwen_xml_parser};

}  // namespace butterfly::server
