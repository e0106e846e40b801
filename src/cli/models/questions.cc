#include "cli/models/questions.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "cli/models/conversation.h"

namespace butterfly::cli {
namespace {

constexpr size_t kAnswerTokensMax = 200;

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

}  // namespace

std::vector<Question> read_questions(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) fail(Errc::kNotFound, "{}: cannot be opened", path.string());
  std::vector<Question> questions;
  size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    try {
      const auto json = json_of_text<nlohmann::json>(line);
      questions.push_back({json.value("kind", "question"), json.at("question"), json.at("answer")});
    } catch (const nlohmann::json::exception& error) {
      fail(Errc::kCorrupt, "{}:{}: {}", path.string(), number, error.what());
    }
  }
  return questions;
}

QuestionResult ask_questions(runtime::Engine& engine, const model::Tokenizer& tokenizer,
                             const std::string& chat_template, const std::vector<Question>& questions,
                             const std::function<bool(size_t asked)>& progress) {
  Conversation conversation(engine, tokenizer, chat_template);
  runtime::RequestOptions options;
  options.sampling.temperature = 0;
  options.tokens_max = kAnswerTokensMax;
  QuestionResult result;
  for (const Question& question : questions) {
    std::string answer;
    conversation.forget_all();
    conversation.ask(question.question, options, [&](std::string_view text) {
      answer += text;
      return true;
    });
    const bool right = trimmed(answer) == trimmed(question.answer);
    for (QuestionScore* score : {&result.all, &result.kinds[question.kind]}) {
      ++score->asked;
      score->right += right;
    }
    if (!right) result.wrong.push_back({question, trimmed(answer)});
    if (!progress(result.all.asked)) break;
  }
  return result;
}

}  // namespace butterfly::cli
