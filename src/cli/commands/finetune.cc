// `butterfly finetune MODEL DATA`: an adapter for a model, learned from texts, with settings that fit both.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "base/free_memory.h"
#include "base/units.h"
#include "cli/commands/commands.h"
#include "cli/commands/train_session.h"
#include "cli/console/exit_code.h"
#include "cli/console/flags.h"
#include "cli/console/options.h"
#include "cli/models/model_store.h"
#include "train/task/tuning.h"

namespace butterfly::cli {
namespace {

struct FinetuneCommand {
  std::string model;
  std::vector<std::string> data;
  std::string out;
  std::string question;
  bool dry_run = false;
  TrainKeys keys;
  TrainNodes nodes;
};

// Everything that a step needs, by what it is for.
struct Needs {
  explicit Needs(train::TrainRun& run) {
    const train::TrainConfig& config = run.config();
    activations = run.trainer().executor(config.micro_batch_size).plan().arena_bytes * config.workers;
    const train::TrainerMemory memory = run.trainer().memory();
    frozen = memory.frozen;
    // An array for each worker, one for the sum.
    learned = memory.weights + memory.optimizer +
              (config.workers + 1) * run.trainer().layout().total() * sizeof(float);
    ahead = run.prefetch_bytes();
  }
  uint64_t all() const { return frozen + learned + activations + ahead; }
  uint64_t frozen = 0, learned = 0, activations = 0, ahead = 0;
};

void print_needs(train::TrainRun& run, const Needs& needs) {
  fmt::print(
      "memory   {}: model {}, adapter with gradients and moments {}, activations {}, batches made "
      "ahead {}\n",
      format_bytes(needs.all()), format_bytes(needs.frozen), format_bytes(needs.learned),
      format_bytes(needs.activations), format_bytes(needs.ahead));
  const double step = run.measure_step();
  fmt::print("time     {:.2f} s a step, {} in all, without validation\n", step,
             format_duration(std::chrono::nanoseconds(
                 static_cast<int64_t>(1e9 * step * static_cast<double>(run.steps() - run.step())))));
}

int finetune(const FinetuneCommand& command) {
  train::TrainConfig config;
  config.base_model = resolve_model(command.model).string();
  config.datasets = command.data;
  config.output_dir =
      command.out.empty() ? std::filesystem::path(command.data[0]).stem().string() + "-adapter" : command.out;
  command.keys.apply(config);
  std::set<std::string> given;
  for (const auto& [key, value] : command.keys.values())
    if (value) given.insert(key);
  const train::Tuning tuning = train::choose_tuning(std::move(config), given);
  fmt::print("chosen   {}\n", tuning.words.empty() ? "nothing: every key was given" : tuning.words[0]);
  for (size_t i = 1; i < tuning.words.size(); ++i) fmt::print("         {}\n", tuning.words[i]);
  std::fflush(stdout);

  TrainSession session{.config = tuning.config, .dry_run = command.dry_run, .nodes = command.nodes};
  session.question = command.question;
  session.begins = [&](train::TrainRun& run, train::TrainConfig& chosen) {
    const Needs needs(run);
    const uint64_t room = free_memory_bytes();
    const uint64_t more = needs.learned + needs.activations + needs.ahead;  // the model is here already
    if (more > room && !chosen.gradient_checkpointing && !given.contains("gradient_checkpointing")) {
      fmt::print("         gradient_checkpointing true: {} more are needed, {} are free\n",
                 format_bytes(more), format_bytes(room));
      chosen.gradient_checkpointing = true;
      return false;
    }
    if (more > room)
      fmt::print(
          "         {} more are needed, {} are free: a smaller --sequence_len or --micro_batch_size helps\n",
          format_bytes(more), format_bytes(room));
    return true;
  };
  if (command.dry_run) {
    session.begins = {};
    train::TrainRun run(tuning.config, train::RunMode::kDry);
    print_needs(run, Needs(run));
    fmt::print("{}", run.report());
    return kExitOk;
  }
  train::RunResult result;
  const int code = run_training(std::move(session), result);
  if (code != kExitOk) return code;
  if (result.best_valid)
    fmt::print(stderr, "validation: {:.4f} at best, of step {} of {}\n", *result.best_valid,
               result.model_step, result.step);
  const std::string model = tuning.config.base_model, adapter = result.model.string();
  fmt::print(stderr,
             "use it:  butterfly chat -m {0} --lora {1}\n"
             "         butterfly serve -m {0} --lora {1}\n"
             "one file: butterfly merge {0} {2} --lora {1}\n",
             model, adapter, (std::filesystem::path(tuning.config.output_dir) / "merged.gguf").string());
  return kExitOk;
}

}  // namespace

CommandBody setup_finetune(CLI::App& app) {
  auto command = std::make_shared<FinetuneCommand>();
  add_option(app, "MODEL", command->model, "Model to teach: a file, or a name from the store").required();
  add_option(
      app, "DATA", command->data,
      "Texts: .jsonl or .csv with messages, conversations, prompt and completion, instruction and output, "
      "or text; .txt")
      .required();
  add_option(app, "-o,--out", command->out, "Folder for the adapter and checkpoints (default: DATA-adapter)")
      .type_name("DIR");
  add_option(app, "--question", command->question,
             "Is answered after every validation, to see what was learned")
      .type_name("TEXT");
  add_flag(app, "--dry-run", command->dry_run, "Only say what would be done: settings, memory, time");
  add_option(app, "--local-nodes", command->nodes.local,
             "Train on so many processes of this machine, this one included; the result is the same")
      .type_name("N");
  command->keys.add_flags(app, "Keys of train, where the choice should be another");
  set_footer(app,
             "Writes adapter.gguf (for --lora, and for llama.cpp) and adapter/ (for PEFT). Ctrl-C saves a "
             "checkpoint; the same command goes on from there and ends with the same bytes.");
  return [command] { return finetune(*command); };
}

}  // namespace butterfly::cli
