// `butterfly eval`: how good a model is: the loss of a training run's model on its test data, or answers to
// questions.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/flags.h"
#include "cli/console/interrupt.h"
#include "cli/console/options.h"
#include "cli/console/progress.h"
#include "cli/models/conversation.h"
#include "cli/models/model_input.h"
#include "cli/models/questions.h"
#include "runtime/engine/local_engine.h"
#include "train/train_run.h"

namespace butterfly::cli {
namespace {

struct EvalCommand {
  std::string config, model, questions;
  size_t threads = 0;
  uint64_t show = 5;
  bool json = false;
};

int eval_config(const EvalCommand& command) {
  train::TrainConfig config;
  train::read_config_file(command.config, config);
  if (!command.model.empty()) config.base_model = command.model;  // this model on the run's test data
  train::TrainRun run(config, command.model.empty() ? train::RunMode::kResume : train::RunMode::kAfresh);
  if (command.model.empty() && run.step() == 0)
    fail(Errc::kNotFound, "{}: output_dir {} has no checkpoint to score; train first, or -m FILE for a model",
         command.config, config.output_dir);
  const auto report = run.validate();
  if (!report) fail(Errc::kInvalidArgument, "{}: names no test_datasets", command.config);
  const double accuracy = static_cast<double>(report->correct) / static_cast<double>(report->targets);
  if (command.json) {
    fmt::print("{}\n", json_text(nlohmann::ordered_json{{"step", run.step()},
                                                        {"loss", report->loss},
                                                        {"perplexity", std::exp(report->loss)},
                                                        {"accuracy", accuracy},
                                                        {"targets", report->targets}}));
  } else {
    fmt::print("step {}: loss {:.4f}, perplexity {:.3f}, {:.2f} % of {} {} right\n", run.step(), report->loss,
               std::exp(report->loss), 100 * accuracy, report->targets, run.unit());
  }
  return kExitOk;
}

int eval_questions(const EvalCommand& command) {
  const auto questions = read_questions(command.questions);
  Compute compute(command.threads);
  ModelInput input;
  input.path = command.model;
  const auto model = input.load(compute.take().pool());
  const auto engine = runtime::make_local_engine(
      *model, compute, runtime::one_stream(std::min<size_t>(model->config.context, 1024)));
  QuestionResult result;
  {
    Progress bar("asking", questions.size());
    result = ask_questions(*engine, model->tokenizer_or_throw(), chat_template_of(*model), questions,
                           [&](size_t asked) {
                             bar.update(asked);
                             return !interrupted();
                           });
  }
  const auto percent = [](const QuestionScore& score) {
    return score.asked == 0 ? 0 : 100.0 * static_cast<double>(score.right) / static_cast<double>(score.asked);
  };
  if (command.json) {
    nlohmann::ordered_json json = {{"asked", result.all.asked}, {"right", result.all.right}};
    for (const auto& [kind, score] : result.kinds)
      json["kinds"][kind] = {{"asked", score.asked}, {"right", score.right}};
    fmt::print("{}\n", json_text(json));
  } else {
    for (const auto& [kind, score] : result.kinds)
      fmt::print("{:<12} {:>4} of {:>4}  {:5.1f} %\n", kind, score.right, score.asked, percent(score));
    fmt::print("{:<12} {:>4} of {:>4}  {:5.1f} %\n", "all", result.all.right, result.all.asked,
               percent(result.all));
    for (size_t i = 0; i < std::min<size_t>(command.show, result.wrong.size()); ++i)
      fmt::print("wrong: {}\n  expected {}\n  found    {}\n", result.wrong[i].question.question,
                 result.wrong[i].question.answer, result.wrong[i].found);
  }
  return interrupted() ? kExitInterrupted : kExitOk;
}

int eval(const EvalCommand& command) {
  if (!command.questions.empty()) {
    if (command.model.empty()) fail(Errc::kInvalidArgument, "--questions needs a model: -m FILE");
    return eval_questions(command);
  }
  if (command.config.empty())
    fail(Errc::kInvalidArgument, "expected the YAML file of a training run, or -m FILE --questions FILE");
  return eval_config(command);
}

}  // namespace

CommandBody setup_eval(CLI::App& app) {
  auto command = std::make_shared<EvalCommand>();
  add_option(app, "CONFIG", command->config, "YAML file of a training run: loss on its test_datasets")
      .type_name("FILE");
  add_option(app, "-m,--model", command->model, "Model to ask").type_name("FILE");
  add_option(app, "--questions", command->questions, "Lines of {\"question\", \"answer\"}").type_name("FILE");
  add_option(app, "--show", command->show, "Wrong answers to show").type_name("N").show_default();
  add_threads_flag(app, command->threads);
  add_json_flag(app, command->json);
  return [command] { return eval(*command); };
}

}  // namespace butterfly::cli
