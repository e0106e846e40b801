#include "train/data/documents.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/json_text.h"
#include "train/data/answers.h"
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

  Document line(const Json& json) const {
    const Json* tools = json.contains("tools") && json["tools"].is_array() ? &json["tools"] : nullptr;
    if (json.contains("messages")) return chat(json.at("messages"), tools);
    if (json.contains("prompt"))
      return chat(Json::array({{{"role", "user"}, {"content", json.at("prompt")}},
                               {{"role", "assistant"}, {"content", json.at("completion")}}}),
                  tools);
    return text(json.at("text").get<std::string>());
  }

 private:
  const model::Tokenizer& tokenizer_;
  const model::ChatPrompter& chat_;
  DocumentOptions options_;
};

}  // namespace

std::vector<Document> read_documents(const fs::path& path, const model::Tokenizer& tokenizer,
                                     const model::ChatPrompter& chat, const DocumentOptions& options) {
  const Encoder encoder(tokenizer, chat, options);
  if (path.extension() != ".jsonl") return {encoder.text(read_text(path))};
  std::vector<Document> documents;
  std::istringstream lines(read_text(path));
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      documents.push_back(encoder.line(json_of_text<Json>(line)));
    } catch (const Json::exception& error) {
      fail(Errc::kCorrupt, "{}:{}: {}", path.string(), number, error.what());
    } catch (const Error& error) {
      fail(error.code(), "{}:{}: {}", path.string(), number, error.what());
    }
  }
  return documents;
}

std::unique_ptr<Dataset> open_dataset(const fs::path& path, size_t length, const model::Tokenizer& tokenizer,
                                      const model::ChatPrompter& chat, const DocumentOptions& options) {
  const std::string ending = path.extension().string();
  if (ending == ".u16" || ending == ".u32")
    return TokenDataset::open(path, ending == ".u16" ? TokenWidth::kU16 : TokenWidth::kU32, length,
                              tokenizer.vocab_size());
  std::vector<Document> documents = read_documents(path, tokenizer, chat, options);
  if (ending == ".jsonl")
    return std::make_unique<DocumentDataset>(documents, length, tokenizer.eos().value_or(0), path.string(),
                                             options.packed);
  return std::make_unique<TokenDataset>(std::move(documents[0].ids), length, tokenizer.vocab_size(),
                                        path.string());
}

}  // namespace butterfly::train
