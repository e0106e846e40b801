#include "cli/questions.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/chat_template/chat_template.h"
#include "runtime/generate.h"

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
      const auto json = nlohmann::json::parse(line);
      questions.push_back({json.value("kind", "question"), json.at("question"), json.at("answer")});
    } catch (const nlohmann::json::exception& error) {
      fail(Errc::kCorrupt, "{}:{}: {}", path.string(), number, error.what());
    }
  }
  return questions;
}

QuestionResult ask_questions(runtime::LocalStage& stage, const model::Tokenizer& tokenizer,
                             const std::string& chat_template, const std::vector<Question>& questions,
                             const std::function<bool(size_t asked)>& progress) {
  const auto chat = model::ChatTemplate::compile(chat_template);
  model::ChatTemplateOptions rendering;
  if (tokenizer.bos()) rendering.bos_token = tokenizer.token_text(*tokenizer.bos());
  if (tokenizer.eos()) rendering.eos_token = tokenizer.token_text(*tokenizer.eos());
  runtime::GenerateOptions options;
  options.sampling.temperature = 0;
  options.tokens_max = kAnswerTokensMax;
  QuestionResult result;
  for (const Question& question : questions) {
    const nlohmann::json messages = {{{"role", "user"}, {"content", question.question}}};
    const std::string prompt = chat.render(messages.dump(), "", rendering);
    model::EncodeOptions encode{.add_bos = {}, .add_eos = false, .parse_special = true};
    if (!rendering.bos_token.empty() && prompt.starts_with(rendering.bos_token)) encode.add_bos = false;
    std::string answer;
    runtime::generate(stage, tokenizer.encode(prompt, encode), options, [&](std::string_view text) {
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
