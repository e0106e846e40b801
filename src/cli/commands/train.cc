// `butterfly train`: a training run from a YAML file. Every key of the file is a flag too.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/file_text.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/commands/commands.h"
#include "cli/commands/train_session.h"
#include "cli/console/exit_code.h"
#include "cli/console/flags.h"
#include "cli/console/interrupt.h"
#include "cli/console/progress.h"
#include "cli/console/terminal.h"
#include "cli/nodes/cluster_access.h"
#include "cli/nodes/mpi_serve.h"
#include "cli/nodes/train_cluster.h"
#include "cli/nodes/train_control.h"
#include "cli/nodes/train_report.h"
#include "runtime/training/step_picture.h"
#include "train/run_files.h"
#include "train/train_run.h"

namespace butterfly::cli {
namespace {

struct TrainCommand {
  std::string config;
  TrainKeys keys;
  bool dry_run = false, json = false, metrics = false, watch = false;
  std::string log = "normal";
  TrainNodes nodes;
};

TrainLog train_log_by_name(const std::string& name) {
  if (name == "quiet") return TrainLog::kQuiet;
  if (name == "normal") return TrainLog::kNormal;
  if (name == "verbose") return TrainLog::kVerbose;
  fail(Errc::kInvalidArgument, "--log: expected quiet, normal or verbose, found '{}'", name);
}

std::string folder_of(const TrainCommand& command) {
  const auto& given = command.keys.values().at("output_dir");
  return given ? *given : train::TrainConfig().output_dir;
}

// `train status`: how a run on several nodes stands, from what its leader writes into its output folder.
int show_status(const TrainCommand& command) {
  const std::filesystem::path path = std::filesystem::path(folder_of(command)) / kTrainNodesFile;
  for (;;) {
    const std::string text = read_text_file(path);
    fmt::print("{}", command.json      ? text
                     : command.metrics ? training_report_metrics(text)
                                       : training_report_text(text));
    std::fflush(stdout);
    if (!command.watch || interrupted()) return kExitOk;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

// How a run on several nodes stands, in its output folder. Whoever looks finds files that are whole.
class NodesFiles {
 public:
  NodesFiles(const std::filesystem::path& folder, uint64_t steps) : folder_(folder), steps_(steps) {}

  // About once a second, and every ten seconds as a line that stays.
  void write_if_due(const runtime::TrainingLeader& leader) {
    if (Clock::now() - written_at_ >= std::chrono::seconds(1)) write(leader);
  }
  // Returns what is in the file.
  std::string write(const runtime::TrainingLeader& leader, std::string_view state = "running") {
    written_at_ = Clock::now();
    const runtime::TrainingReport report = leader.report();
    const std::string text = training_report_json(report, steps_, state);
    replace(kTrainNodesFile, text + "\n");
    if (written_at_ - line_at_ >= std::chrono::seconds(10)) {
      line_at_ = written_at_;
      std::ofstream(folder_ / kTrainNodesLines, std::ios::binary | std::ios::app) << text << "\n";
      if (!report.trace.rows.empty()) replace(kTrainStepPicture, runtime::step_picture(report.trace));
    }
    return text;
  }
  // The last one is a line and a picture in any case.
  std::string finish(const runtime::TrainingLeader& leader) {
    line_at_ = {};
    return write(leader, "ended");
  }

 private:
  using Clock = std::chrono::steady_clock;
  void replace(const char* name, const std::string& text) {
    const std::filesystem::path path = folder_ / name, fresh = path.string() + ".new";
    std::ofstream(fresh, std::ios::binary) << text;
    std::error_code ignored;  // a full disk, say: nothing depends on it
    std::filesystem::rename(fresh, path, ignored);
  }
  const std::filesystem::path folder_;
  const uint64_t steps_;
  Clock::time_point written_at_, line_at_ = Clock::now();
};

train::TrainConfig config_of(const TrainCommand& command) {
  train::TrainConfig config;
  if (!command.config.empty())
    if (const auto idle = train::read_config_file(command.config, config); !idle.empty())
      fmt::print(stderr, "{}: without effect here: {}\n", command.config, fmt::join(idle, ", "));
  command.keys.apply(config);
  return config;
}

// Of an answer that is shown on the way.
constexpr size_t kSampleTokens = 48;

// What matters most first: a narrow terminal cuts the end.
std::string line_of(const train::RunProgress& p) {
  const std::string time =
      p.step < p.steps ? "ETA " + time_left_text(p.seconds_left) : "in " + time_left_text(p.seconds);
  return fmt::format("step {}/{}  loss {:.4f}  {} {}/s  {}  norm {:.2f}  lr {:.2e}  busy {:.0f} %", p.step,
                     p.steps, p.report.loss, format_count(static_cast<uint64_t>(p.items_per_second)), p.unit,
                     time, p.report.grad_norm, p.report.lr, 100 * p.report.utilisation);
}

std::string validation_of(const train::RunProgress& p) {
  return fmt::format("validation {:.4f}, {:.2f} % right", *p.valid, 100 * p.valid_right.value_or(0));
}

// For a person one line that is written over and over, at most twenty times a second, and a lasting one for
// each validation; plain lines, about a hundred in all, for a file. Quiet: none of them; verbose: a plain
// line for every step.
class LiveLine {
 public:
  explicit LiveLine(TrainLog log)
      : log_(log), live_(is_terminal(STDERR_FILENO) && log == TrainLog::kNormal) {}
  ~LiveLine() {
    if (live_ && drawn_) write("\n");
  }
  void show(const train::RunProgress& progress) {
    if (log_ == TrainLog::kQuiet) return;
    if (live_) {
      if (progress.valid)
        draw(fmt::format("step {}/{}  loss {:.4f}  {}", progress.step, progress.steps, progress.report.loss,
                         validation_of(progress)) +
             "\n");
      const auto now = std::chrono::steady_clock::now();
      if (!progress.valid && progress.step != progress.steps &&
          now - drawn_at_ < std::chrono::milliseconds(50))
        return;
      drawn_at_ = now;
      std::string line = line_of(progress);
      line.resize(std::min(line.size(), terminal_width(STDERR_FILENO) - 1));
      draw(line);
      drawn_ = true;
    } else if (log_ == TrainLog::kVerbose || progress.valid || progress.step == progress.steps ||
               progress.step % std::max<uint64_t>(1, progress.steps / 100) == 0) {
      write(line_of(progress) + (progress.valid ? "  " + validation_of(progress) : std::string()) + "\n");
    }
  }

  // A line that stays, of any text.
  void say(std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 32; }, ' ');
    if (live_) {
      draw(text + "\n");
    } else {
      write(text + "\n");
    }
  }

 private:
  static void draw(const std::string& line) { write("\r\033[K" + line); }
  // A line that cannot be written, because a signal came in between or the disk with the log is full, ends no
  // run.
  static void write(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  }
  const TrainLog log_;
  bool live_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point drawn_at_;
};

// Stands still while that is wanted, by `train pause`. False: the run is to end, by `train cancel` or a
// signal.
bool goes_on(RunControl& control, uint64_t step, const std::function<void(std::string_view state)>& tell) {
  RunControl::Wish wish = control.wish();
  if (wish == RunControl::Wish::kPause) {
    fmt::print(stderr, "paused after step {}; 'train resume' goes on\n", step);
    tell("paused");
    while (wish == RunControl::Wish::kPause && !interrupted()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      wish = control.wish();
    }
    if (wish == RunControl::Wish::kNone && !interrupted()) fmt::print(stderr, "goes on\n");
    tell("running");
  }
  if (wish == RunControl::Wish::kCancel) fmt::print(stderr, "cancelled\n");
  return wish != RunControl::Wish::kCancel && !interrupted();
}

}  // namespace

void TrainKeys::add_flags(CLI::App& app, const std::string& group) {
  train::TrainConfig defaults;
  train::visit_fields(defaults, [&](std::string_view name, auto&, std::string_view words) {
    add_option(app, "--" + std::string(name), values_[std::string(name)], std::string(words))
        .type_name("VALUE")
        .group(group);
  });
}

void TrainKeys::apply(train::TrainConfig& config) const {
  for (const auto& [key, value] : values_)
    if (value) train::set_config_value(config, key, *value);
}

int run_training(TrainSession command, train::RunResult& result) {
  train::TrainConfig config = command.config;
  if (train::wire_mode_by_name(config.wire_mode) != train::WireMode::kExact && config.wire_slots == 0 &&
      command.nodes.any()) {
    config.wire_slots = command.nodes.cluster ? command.nodes.wanted : command.nodes.local;
    if (config.wire_slots == 0)
      fail(Errc::kInvalidArgument,
           "wire_mode {}: the result depends on wire_slots, and with --cluster nodes come and go; give "
           "--nodes "
           "or --wire_slots",
           config.wire_mode);
  }
  if (command.log == TrainLog::kQuiet) set_log_level(LogLevel::kWarn);
  if (command.log == TrainLog::kVerbose) set_log_level(LogLevel::kDebug);
  std::optional<RunControl> control;
  if (!command.dry_run) control.emplace(config.output_dir);
  std::unique_ptr<TrainCluster> cluster;  // before the trainer, whose threads it binds
  if (command.nodes.any() && !command.dry_run) {
    cluster = std::make_unique<TrainCluster>(command.nodes, config.threads, std::move(command.start));
    if (config.threads == 0) config.threads = cluster->threads();
  }
  const train::RunMode mode = command.dry_run ? train::RunMode::kDry : train::RunMode::kResume;
  auto opened = std::make_unique<train::TrainRun>(config, mode);
  if (command.begins && !command.begins(*opened, config)) {
    opened.reset();  // its memory first
    opened = std::make_unique<train::TrainRun>(config, mode);
  }
  train::TrainRun& run = *opened;
  for (const std::string& note : run.notes()) fmt::print(stderr, "{}\n", note);
  if (command.dry_run) {
    fmt::print("{}", run.report());
    if (const double step = run.measure_step(); step > 0)
      fmt::print("time     {:.2f} s a step, {} in all, without validation\n", step,
                 format_duration(std::chrono::nanoseconds(
                     static_cast<int64_t>(1e9 * step * static_cast<double>(run.steps() - run.step())))));
    std::filesystem::create_directories(config.output_dir);
    const auto picture = std::filesystem::path(config.output_dir) / "memory.svg";
    std::ofstream(picture, std::ios::binary) << run.memory_picture();
    fmt::print("picture  {}\n", picture.string());
    return kExitOk;
  }
  if (run.step() > 0) fmt::print(stderr, "goes on from step {}\n", run.step());
  stop_cleanly_on_terminate();
  announce_interrupt("\nstopping after this step; Ctrl-C again ends at once, without saving\n");
  const std::unique_ptr<runtime::TrainingLeader> leader = cluster == nullptr ? nullptr : cluster->lead(run);
  train::write_run_facts(run, config.model.name.empty()
                                  ? std::filesystem::path(config.output_dir).filename().string()
                                  : config.model.name);
  NodesFiles nodes(config.output_dir, run.steps());
  {
    LiveLine line(command.log);
    ThreadPool sample_pool({.threads = config.threads, .pin = false});
    result = run.run(
        [&](const train::RunProgress& progress) {
          line.show(progress);
          if (progress.valid && !command.question.empty() && run.task().sample)
            line.say(fmt::format("  {} -> {}", command.question,
                                 run.task().sample(command.question, kSampleTokens, sample_pool)));
          if (leader != nullptr) nodes.write_if_due(*leader);
          return goes_on(*control, progress.step, [&](std::string_view state) {
            if (leader != nullptr) nodes.write(*leader, state);
          });
        },
        leader.get());
  }
  if (leader != nullptr) {
    const std::string report = nodes.finish(*leader);
    if (command.log != TrainLog::kQuiet) fmt::print(stderr, "{}", training_report_text(report));
  }
  announce_interrupt(nullptr);
  if (!result.finished) {
    fmt::print(stderr, "stopped at step {}, saved in {}; the same command goes on from there\n", result.step,
               (std::filesystem::path(config.output_dir) / "checkpoints").string());
    return kExitInterrupted;
  }
  fmt::print("{}\n", result.model.string());
  return kExitOk;
}

namespace {

int train_model(const TrainCommand& command, std::shared_ptr<runtime::ClusterStart> start = nullptr) {
  train::RunResult result;
  return run_training({.config = config_of(command),
                       .log = train_log_by_name(command.log),
                       .dry_run = command.dry_run,
                       .nodes = command.nodes,
                       .start = std::move(start)},
                      result);
}

// As ranks of an MPI job: the first one leads, the others are its nodes.
int train_anywhere(TrainCommand command) {
  server::Settings settings;
  settings.threads = command.dry_run ? 0 : config_of(command).threads;
  settings.cluster = command.nodes.cluster;
  settings.local_nodes = command.nodes.local;
  const auto rank = command.dry_run ? nullptr : MpiServe::join(settings);
  if (rank == nullptr) return train_model(command);
  command.nodes.cluster = true;
  command.nodes.wanted = rank->ranks();
  command.keys.set("threads", std::to_string(settings.threads));
  return rank->run([&]() -> int {
    if (!rank->is_first()) return rank->work(settings), kExitOk;
    return train_model(command, rank->training_start());
  });
}

}  // namespace

CommandBody setup_train(CLI::App& app) {
  auto command = std::make_shared<TrainCommand>();
  add_option(
      app, "CONFIG", command->config,
      "YAML file; keys as in axolotl and TRL. 'status', 'pause', 'resume', 'cancel': how the run of an "
      "--output_dir stands on its nodes, and whether it goes on")
      .type_name("FILE");
  add_flag(app, "--dry-run", command->dry_run, "Only say what would be done: data, steps, memory");
  add_option(app, "--local-nodes", command->nodes.local,
             "Train on so many processes of this machine, this one included; the result is the same")
      .type_name("N");
  add_flag(app, "--cluster", command->nodes.cluster,
           "Train on the machines that joined the cluster made here; the result is the same");
  add_option(app, "--nodes", command->nodes.wanted,
             "With --cluster: the first step waits for so many, this one included")
      .type_name("N");
  add_state_flag(app, command->nodes.state);
  add_option(app, "--cluster-listen", command->nodes.listen, "With --cluster: where nodes join")
      .type_name("HOST:PORT");
  command->keys.add_flags(app, "Keys of the file");
  set_footer(app,
             "Ctrl-C (or SIGTERM) saves a checkpoint and ends. Started again with the same output_dir, a run "
             "goes on from its newest checkpoint and ends with the same bytes, on however many nodes.");
  add_option(
      app, "--log", command->log,
      "What is printed on the way: quiet (what goes wrong), normal, verbose (every step, and what nodes say)")
      .type_name("LEVEL");
  add_flag(app, "--json", command->json, "With status: JSON for programs");
  add_flag(app, "--metrics", command->metrics, "With status: as Prometheus reads it");
  add_flag(app, "--watch", command->watch, "With status: again every second");
  return [command] {
    const std::string& word = command->config;
    if (word == "status") return show_status(*command);
    if (word == "pause" || word == "resume" || word == "cancel") {
      fmt::print("{}", control_run(folder_of(*command), word));
      return static_cast<int>(kExitOk);
    }
    return train_anywhere(*command);
  };
}

}  // namespace butterfly::cli
