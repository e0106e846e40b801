#include <algorithm>

#include "base/check.h"
#include "server/tools/chat_family.h"

namespace butterfly::server {

extern const ChatFamily kHarmonyFamily, kKimiFamily, kDeepSeekFamily, kMiniMaxFamily, kGlmFamily,
    kQwenXmlFamily, kLfm2Family, kNemotronFamily, kGraniteFamily, kGemmaFamily, kMistralFamily,
    kFireFunctionFamily, kHermesFamily, kLlamaFamily, kTaughtFamily;

namespace {

// The most particular first: several have <tool_call>, and differ in what stands behind it.
constexpr const ChatFamily* kFamilies[] = {
    &kHarmonyFamily, &kKimiFamily,         &kDeepSeekFamily, &kMiniMaxFamily, &kGlmFamily,
    &kQwenXmlFamily, &kLfm2Family,         &kNemotronFamily, &kGraniteFamily, &kGemmaFamily,
    &kMistralFamily, &kFireFunctionFamily, &kHermesFamily,   &kLlamaFamily,   &kTaughtFamily,
};

constexpr ReasoningMarks kReasoningMarks[] = {
    {"<think>", "</think>"},  // most of them
    {"[THINK]", "[/THINK]"},  // Magistral
    {"<seed:think>", "</seed:think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},  // Command A
};

}  // namespace

std::span<const ChatFamily* const> chat_families() { return kFamilies; }

const ChatFamily& family_of(std::string_view source) {
  return **std::find_if(std::begin(kFamilies), std::end(kFamilies) - 1,
                        [&](const ChatFamily* family) { return family->fits(source); });
}

const ChatFamily& family_by_name(std::string_view name) {
  const auto found = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                  [&](const ChatFamily* family) { return family->name == name; });
  BF_CHECK(found != std::end(kFamilies)) << "no family " << name;
  return **found;
}

const ReasoningMarks* reasoning_marks_of(std::string_view source) {
  for (const ReasoningMarks& marks : kReasoningMarks)
    if (source.find(marks.close) != std::string_view::npos) return &marks;
  return nullptr;
}

OutputParserPtr make_output_parser(const OutputForm& form) {
  if (form.family == nullptr) return words_parser();
  const bool own = form.calls || form.family->reasons_itself;
  OutputParserPtr parser = own ? form.family->parser(form.tools) : words_parser();
  if (form.reasoning == nullptr || form.family->reasons_itself) return parser;
  return reasoning_parser(*form.reasoning, form.inside, std::move(parser));
}

}  // namespace butterfly::server
