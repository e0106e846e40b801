// libFuzzer: what a model may write, through the parsers of all families. The first byte chooses the family
// and whether reasoning is split off, the second the pieces. However it is cut, the same comes out.
#include <cstddef>
#include <cstdint>
#include <string>

#include "server/tools/chat_family.h"

using namespace butterfly::server;

namespace {

ParsedText parse(const OutputForm& form, const std::string& text, size_t step, bool cut) {
  const OutputParserPtr parser = make_output_parser(form);
  ParsedText all;
  for (size_t i = 0; i < text.size(); i += step) all.append(parser->push(text.substr(i, step)));
  all.append(parser->flush(cut));
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  OutputForm form;
  form.family = chat_families()[data[0] % chat_families().size()];
  form.calls = true;
  form.tools = {{"f", R"({"properties":{"a":{"type":"string"},"b":{"type":"integer"}}})"}, {"g", ""}};
  if (data[0] & 0x40) form.reasoning = reasoning_marks_of("</think>");
  form.inside = (data[0] & 0x80) != 0;
  const bool cut = (data[1] & 0x80) != 0;
  const std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const ParsedText whole = parse(form, text, text.size() + 1, cut);
  const ParsedText pieces = parse(form, text, 1 + data[1] % 16, cut);
  if (whole.text != pieces.text || whole.reasoning != pieces.reasoning ||
      whole.calls.size() != pieces.calls.size())
    __builtin_trap();
  for (size_t i = 0; i < whole.calls.size(); ++i)
    if (whole.calls[i].name != pieces.calls[i].name || whole.calls[i].arguments != pieces.calls[i].arguments)
      __builtin_trap();
  // Nothing is added: what comes out is never longer than what went in, but for arguments as JSON.
  if (whole.text.size() + whole.reasoning.size() > text.size() + 1) __builtin_trap();
  return 0;
}
