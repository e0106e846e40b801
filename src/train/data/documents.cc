#include "train/data/documents.h"

#include <fmt/format.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
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

std::vector<Document> read_documents(const fs::path& path, const model::Tokenizer& tokenizer,
                                     const model::ChatPrompter& chat, const DocumentOptions& options,
                                     BadLines* bad_lines) {
  const Encoder encoder(tokenizer, chat, options);
  if (!has_lines(path)) return {encoder.text(read_text(path))};
  std::vector<Document> documents;
  each_line(
      path, [&](const Json& line) { documents.push_back(encoder.line(line)); },
      on_bad_line(path, options, bad_lines));
  return documents;
}

std::vector<PairDataset::Pair> read_pairs(const fs::path& path, const model::Tokenizer& tokenizer,
                                          const model::ChatPrompter& chat, const DocumentOptions& options,
                                          BadLines* bad_lines) {
  if (!has_lines(path))
    fail(Errc::kInvalidArgument, "{}: rl: dpo learns from .jsonl or .csv files", path.string());
  DocumentOptions of_answers = options;
  of_answers.train_on_inputs = false;
  const Encoder encoder(tokenizer, chat, of_answers);
  std::vector<PairDataset::Pair> pairs;
  each_line(
      path, [&](const Json& line) { pairs.push_back(encoder.pair(line)); },
      on_bad_line(path, options, bad_lines));
  return pairs;
}

std::unique_ptr<Dataset> open_pairs(const fs::path& path, size_t length, const model::Tokenizer& tokenizer,
                                    const model::ChatPrompter& chat, const DocumentOptions& options) {
  BadLines bad;
  const std::vector<PairDataset::Pair> pairs = read_pairs(path, tokenizer, chat, options, &bad);
  return std::make_unique<PairDataset>(pairs, length, tokenizer.eos().value_or(0), path.string(),
                                       bad.words());
}

std::unique_ptr<Dataset> open_dataset(const fs::path& path, size_t length, const model::Tokenizer& tokenizer,
                                      const model::ChatPrompter& chat, const DocumentOptions& options) {
  const std::string ending = path.extension().string();
  if (ending == ".u16" || ending == ".u32")
    return TokenDataset::open(path, ending == ".u16" ? TokenWidth::kU16 : TokenWidth::kU32, length,
                              tokenizer.vocab_size());
  BadLines bad;
  std::vector<Document> documents = read_documents(path, tokenizer, chat, options, &bad);
  if (has_lines(path))
    return std::make_unique<DocumentDataset>(documents, length, tokenizer.eos().value_or(0), path.string(),
                                             options.packed, bad.words());
  return std::make_unique<TokenDataset>(std::move(documents[0].ids), length, tokenizer.vocab_size(),
                                        path.string());
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
