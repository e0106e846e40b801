#include "train/data/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/sha256.h"
#include "train/data/answers.h"
#include "train/data/csv_rows.h"
#include "train/data/records.h"
#include "train/data/text_file.h"

namespace butterfly::train {
namespace {

namespace fs = std::filesystem;
using Json = model::ChatJson;

class Encoder {
 public:
  Encoder(const model::Tokenizer& tokenizer, const model::ChatPrompter& chat, const DocumentOptions& options)
      : tokenizer_(tokenizer), chat_(chat), options_(options) {}

  Document text(const std::string& text) const {
    Document document{tokenizer_.encode(text), {}};
    if (tokenizer_.eos()) document.ids.push_back(*tokenizer_.eos());
    return document;
  }

  // As one text: encoded in parts, words at their borders would have other tokens than the model meets.
  Document chat(const Json& messages, const Json* tools) const {
    const model::RenderedChat whole =
        chat_.render({.messages = &messages, .tools = tools, .add_generation_prompt = false});
    Document document{chat_.encode(whole), {}};
    if (!options_.train_on_inputs)
      document.learned =
          learned_ids(tokenizer_, document.ids, whole.text, answer_ranges(chat_, messages, tools, whole));
    return document;
  }

  PairDataset::Pair pair(const Json& json) const {
    const Record record = read_record(json);
    if (!record.rejected)
      fail(Errc::kCorrupt, "rl: dpo learns from pairs: expected the keys chosen and rejected");
    const Json* tools = record.tools.is_null() ? nullptr : &record.tools;
    return {chat(record.messages, tools), chat(*record.rejected, tools)};
  }

  Document line(const Json& json) const {
    const Record record = read_record(json);
    if (record.rejected)
      fail(Errc::kInvalidArgument, "a pair of answers (chosen, rejected): such are learned with rl: dpo");
    if (record.text) return text(*record.text);
    return chat(record.messages, record.tools.is_null() ? nullptr : &record.tools);
  }

 private:
  const model::Tokenizer& tokenizer_;
  const model::ChatPrompter& chat_;
  DocumentOptions options_;
};

// Calls `take` with every line of a .jsonl or row of a .csv file and its number.
void each_line(const fs::path& path, const std::function<void(const Json& line)>& take,
               const std::function<void(size_t number, const Error& error)>& bad) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(Errc::kNotFound, "{}: cannot be read", path.string());
  const auto guarded = [&](size_t number, const auto& read) {
    try {
      take(read());
    } catch (const Json::exception& error) {
      bad(number, Error(Errc::kCorrupt, error.what()));
    } catch (const Error& error) {
      bad(number, error);
    }
  };
  if (path.extension() == ".csv") {
    CsvRows rows(in);
    std::vector<std::string> names, values;
    const auto next = [&](std::vector<std::string>& row) {
      try {
        return rows.next(row);
      } catch (const Error& error) {
        fail(error.code(), "{}:{}: {}", path.string(), rows.line(), error.what());
      }
    };
    next(names);
    while (next(values))
      guarded(rows.line(), [&] {
        if (values.size() != names.size())
          fail(Errc::kCorrupt, "expected {} values, found {}", names.size(), values.size());
        Json line = Json::object();
        for (size_t i = 0; i < names.size(); ++i) line[names[i]] = values[i];
        return line;
      });
    return;
  }
  size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") != std::string::npos)
      guarded(number, [&] { return json_of_text<Json>(line); });
  }
}

// Ends the run, or counts.
std::function<void(size_t number, const Error& error)> on_bad_line(const fs::path& path,
                                                                   const DocumentOptions& options,
                                                                   BadLines* counted) {
  return [&path, skip = options.skip_bad, counted](size_t number, const Error& error) {
    if (!skip)
      fail(error.code(), "{}:{}: {}; skip_bad: true leaves such lines out", path.string(), number,
           error.what());
    if (counted != nullptr) counted->add(number, error.what());
  };
}

}  // namespace

bool has_lines(const fs::path& path) { return path.extension() == ".jsonl" || path.extension() == ".csv"; }

namespace {

TokenStore tokenised(const fs::path& path, const model::Tokenizer& tokenizer, const model::ChatPrompter& chat,
                     DocumentOptions options, bool pairs) {
  if (pairs) options.train_on_inputs = false;
  const Encoder encoder(tokenizer, chat, options);
  TokenStore store;
  if (!has_lines(path)) {
    store.add(encoder.text(read_text(path)));
    return store;
  }
  BadLines bad;
  each_line(
      path,
      [&](const Json& line) {
        if (!pairs) return store.add(encoder.line(line));
        const PairDataset::Pair pair = encoder.pair(line);
        store.add(pair.first);
        store.add(pair.second);
      },
      on_bad_line(path, options, &bad));
  store.set_notes(bad.words());
  return store;
}

// All that decides the tokens of a file, as one name.
std::string cache_name(const fs::path& path, const model::ChatPrompter& chat, const DocumentOptions& options,
                       bool pairs) {
  constexpr int kVersion = 1;  // of what becomes of a line
  const std::shared_ptr<MappedFile> file = MappedFile::open(path);
  std::string text =
      fmt::format("{} {} {} {} {} {}\n{}\n", kVersion, path.extension().string(), options.train_on_inputs,
                  options.skip_bad, pairs, options.vocabulary, sha256_hex(chat.source()));
  MappedFile::guard([&] { text += sha256_hex(file->bytes()); });
  return sha256_hex(text).substr(0, 32) + ".tokens";
}

}  // namespace

std::shared_ptr<const TokenStore> open_tokens(const fs::path& path, const model::Tokenizer& tokenizer,
                                              const model::ChatPrompter& chat, const DocumentOptions& options,
                                              bool pairs) {
  if (pairs && !has_lines(path))
    fail(Errc::kInvalidArgument, "{}: rl: dpo learns from .jsonl or .csv files", path.string());
  if (options.cache.empty())
    return std::make_shared<TokenStore>(tokenised(path, tokenizer, chat, options, pairs));
  const fs::path cached = options.cache / cache_name(path, chat, options, pairs);
  if (auto store = TokenStore::open(cached)) return store;
  auto store = std::make_shared<TokenStore>(tokenised(path, tokenizer, chat, options, pairs));
  try {
    store->write(cached);
  } catch (const std::exception& error) {  // a full disk, or a folder that is not ours: it is only a cache
    log_warn("tokens are not kept for the next start: {}", error.what());
    return store;
  }
  if (auto mapped = TokenStore::open(cached)) return mapped;
  return store;
}

std::vector<Document> read_documents(const fs::path& path, const model::Tokenizer& tokenizer,
                                     const model::ChatPrompter& chat, const DocumentOptions& options) {
  const auto store = open_tokens(path, tokenizer, chat, options);
  std::vector<Document> documents;
  for (size_t i = 0; i < store->size(); ++i) {
    documents.push_back(store->document(i));
    const auto& learned = documents.back().learned;
    if (std::find(learned.begin(), learned.end(), false) == learned.end()) documents.back().learned.clear();
  }
  return documents;
}

std::unique_ptr<Dataset> open_pairs(const fs::path& path, size_t length, const model::Tokenizer& tokenizer,
                                    const model::ChatPrompter& chat, const DocumentOptions& options) {
  return std::make_unique<PairDataset>(*open_tokens(path, tokenizer, chat, options, /*pairs=*/true), length,
                                       tokenizer.eos().value_or(0), path.string());
}

std::unique_ptr<Dataset> open_dataset(const fs::path& path, size_t length, const model::Tokenizer& tokenizer,
                                      const model::ChatPrompter& chat, const DocumentOptions& options) {
  const std::string ending = path.extension().string();
  if (ending == ".u16" || ending == ".u32")
    return TokenDataset::open(path, ending == ".u16" ? TokenWidth::kU16 : TokenWidth::kU32, length,
                              tokenizer.vocab_size());
  const auto store = open_tokens(path, tokenizer, chat, options);
  if (has_lines(path))
    return std::make_unique<DocumentDataset>(store, length, tokenizer.eos().value_or(0), path.string(),
                                             options.packed, tokenizer.vocab_size());
  Document text;
  MappedFile::guard([&] { text = store->document(0); });
  return std::make_unique<TokenDataset>(std::move(text.ids), length, tokenizer.vocab_size(), path.string());
}

void BadLines::add(size_t line, const std::string& reason) {
  constexpr size_t kShown = 10;
  if (count_++ == 0) first_ = fmt::format("{}: {}", line, reason);
  if (count_ <= kShown) numbers_ += fmt::format("{}{}", numbers_.empty() ? "" : ", ", line);
  if (count_ == kShown + 1) numbers_ += " ...";
}

std::string BadLines::words() const {
  if (count_ == 0) return {};
  return fmt::format("{} bad lines left out ({}; {})", count_, numbers_, first_);
}

}  // namespace butterfly::train
