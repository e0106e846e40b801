// Texts and chats in files, as documents of token ids.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/chat_template/chat_prompt.h"
#include "model/tokenizer/tokenizer.h"
#include "train/data/token_dataset.h"

namespace butterfly::train {

struct DocumentOptions {
  bool train_on_inputs = true;  // false: of chats only the answers are learned, all of them
  bool packed = true;           // several documents share a window
};

// Lines {"text": …}, {"messages": […]} or {"prompt": …, "completion": …} of a .jsonl file, or a .txt file as
// one document. Texts end with the end-of-text token, chats as the template ends them. Control tokens that
// are spelled in texts, contents or tools are plain text. Throws Error naming file and line.
std::vector<Document> read_documents(const std::filesystem::path& path, const model::Tokenizer& tokenizer,
                                     const model::ChatPrompter& chat, const DocumentOptions& options);

// Of a file by its ending: .jsonl packed, .txt as one run, .u16 and .u32 as token files.
std::unique_ptr<Dataset> open_dataset(const std::filesystem::path& path, size_t length,
                                      const model::Tokenizer& tokenizer, const model::ChatPrompter& chat,
                                      const DocumentOptions& options);

}  // namespace butterfly::train
