// Texts and chats in files, as documents of token ids.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/chat_template/chat_prompt.h"
#include "model/tokenizer/tokenizer.h"
#include "train/data/pair_dataset.h"
#include "train/data/token_dataset.h"

namespace butterfly::train {

struct DocumentOptions {
  bool train_on_inputs = true;  // false: of chats only the answers are learned, all of them
  bool packed = true;           // several documents share a window
  bool skip_bad = false;        // lines that cannot be read are left out and counted
  // Where tokens are kept from one start to the next, under a hash of all that decides them, and what tells
  // tokenizers apart. Empty: nowhere.
  std::filesystem::path cache = {};
  std::string vocabulary = {};
};

// Lines that were left out. One thread.
class BadLines {
 public:
  void add(size_t line, const std::string& reason);
  size_t count() const { return count_; }
  std::string words() const;  // how many, the first of their numbers, and why the first; empty: none

 private:
  size_t count_ = 0;
  std::string numbers_, first_;
};

// Lines of a .jsonl file or rows of a .csv file as records.h has them, or a .txt file as one document. Texts
// end with the end-of-text token, chats as the template ends them. Control tokens that are spelled in texts,
// contents or tools are plain text. Throws Error naming file and line, unless bad ones are left out.
std::vector<Document> read_documents(const std::filesystem::path& path, const model::Tokenizer& tokenizer,
                                     const model::ChatPrompter& chat, const DocumentOptions& options);
// The same with what was left out as notes; `pairs`: two documents for each pair. From the cache where they
// are in it: the file is read to see whether it is the same, and not tokenised.
std::shared_ptr<const TokenStore> open_tokens(const std::filesystem::path& path,
                                              const model::Tokenizer& tokenizer,
                                              const model::ChatPrompter& chat, const DocumentOptions& options,
                                              bool pairs = false);
// Whether the file has a document in each line.
bool has_lines(const std::filesystem::path& path);

// Pairs of answers (records.h) of a .jsonl or .csv file, of which only the answers are learned.
std::unique_ptr<Dataset> open_pairs(const std::filesystem::path& path, size_t length,
                                    const model::Tokenizer& tokenizer, const model::ChatPrompter& chat,
                                    const DocumentOptions& options);

// Of a file by its ending: .jsonl and .csv packed, .txt as one run, .u16 and .u32 as token files.
std::unique_ptr<Dataset> open_dataset(const std::filesystem::path& path, size_t length,
                                      const model::Tokenizer& tokenizer, const model::ChatPrompter& chat,
                                      const DocumentOptions& options);

}  // namespace butterfly::train
