// What the assistant wrote in a chat, as the model's template shows it.
#pragma once
#include <vector>

#include "model/chat_template/chat_prompt.h"

namespace butterfly::train {

// The bytes of `whole` (the rendered chat) that each message of the assistant made: its content as the
// template writes it, with its calls and its reasoning, but not the words around it. Found by rendering the
// chat with other contents in its place, so it holds for any template, also for those that write earlier
// answers otherwise than the last. In order.
std::vector<model::ByteRange> answer_ranges(const model::ChatPrompter& chat, const model::ChatJson& messages,
                                            const model::ChatJson* tools, const model::RenderedChat& whole);

// Which of the ids of `whole` are learned: those that stand for an answer, and the control token that ends
// it. Throws Error kUnsupported when the tokenizer does not keep the text as it is.
std::vector<bool> learned_ids(const model::Tokenizer& tokenizer, std::span<const int32_t> ids,
                              const std::string& text, std::span<const model::ByteRange> answers);

}  // namespace butterfly::train
