// Held-out questions put to a model: how many of its answers are the expected ones.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "model/tokenizer/tokenizer.h"
#include "runtime/engine/engine.h"

namespace butterfly::cli {

struct Question {
  std::string kind, question, answer;
};
// Lines {"kind": …, "question": …, "answer": …}. Throws Error naming file and line.
std::vector<Question> read_questions(const std::filesystem::path& path);

struct QuestionScore {
  size_t right = 0, asked = 0;
};
struct QuestionResult {
  QuestionScore all;
  std::map<std::string, QuestionScore> kinds;
  struct Wrong {
    Question question;
    std::string found;
  };
  std::vector<Wrong> wrong;
};

// Each through the model's chat template, answered greedily; right means the same text, blanks at the ends
// aside. `progress(asked)` may return false to stop.
QuestionResult ask_questions(runtime::Engine& engine, const model::Tokenizer& tokenizer,
                             const std::string& chat_template, const std::vector<Question>& questions,
                             const std::function<bool(size_t asked)>& progress);

}  // namespace butterfly::cli
