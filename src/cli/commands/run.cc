// `butterfly run`: text from a model, or a conversation with it; `butterfly chat`: always the latter. The
// text alone goes to stdout.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json_text.h"
#include "base/units.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/flags.h"
#include "cli/console/interrupt.h"
#include "cli/console/options.h"
#include "cli/console/text_input.h"
#include "cli/models/conversation.h"
#include "cli/models/model_input.h"
#include "cli/models/model_store.h"
#include "cli/models/talk.h"
#include "cli/nodes/cluster_run.h"
#include "runtime/engine/complete.h"
#include "runtime/engine/local_engine.h"

namespace butterfly::cli {
namespace {

using Seconds = std::chrono::duration<double>;

struct RunOptions {
  ModelInput model;
  TextInput text;
  runtime::RequestOptions request;
  size_t batch = 512;
  int64_t tokens = -1;
  size_t context = 0;
  size_t threads = 0;
  std::string cache_type = "f16";
  std::string predict = "auto";
  std::vector<std::string> adapters;
  RunNodes nodes;
  std::optional<uint64_t> seed;
  std::string system;
  bool chat = false;
  bool only_talk = false;  // `butterfly chat`
  bool no_bos = false;
  bool quiet = false;
  bool json = false;
};

constexpr size_t kDefaultContext = 4096;

DType cache_type(const std::string& name) {
  const auto dtype = dtype_by_name(name);
  if (!dtype || (*dtype != DType::kF16 && *dtype != DType::kF32 && *dtype != DType::kQ8_0))
    fail(Errc::kInvalidArgument, "--cache-type {}: expected f16, f32 or q8_0", name);
  return *dtype;
}

double per_second(size_t count, std::chrono::nanoseconds time) {
  return time.count() == 0 ? 0 : static_cast<double>(count) / Seconds(time).count();
}

// What was measured. The first token comes out of the prompt's run; the rate is over those after it.
struct Timings {
  std::chrono::nanoseconds total, load;
  const runtime::Completion& done;
  uint64_t seed;
  size_t prompt_count() const { return done.finish.usage.prompt_tokens; }
  size_t eval_count() const { return done.tokens.empty() ? 0 : done.tokens.size() - 1; }
  std::string_view reason() const { return runtime::finish_reason_name(done.finish.reason); }
};

void print_timings(const Timings& t) {
  const auto row = [](std::string_view name, const std::string& value) {
    fmt::print(stderr, "{:<22}{}\n", name, value);
  };
  fmt::print(stderr, "\n");
  row("total duration:", format_duration(t.total));
  row("load duration:", format_duration(t.load));
  row("prompt eval count:", fmt::format("{} token(s)", t.prompt_count()));
  row("prompt eval duration:", format_duration(t.done.prompt_time()));
  row("prompt eval rate:",
      fmt::format("{:.2f} tokens/s", per_second(t.prompt_count(), t.done.prompt_time())));
  row("time to first token:", format_duration(t.done.prompt_time()));
  row("eval count:", fmt::format("{} token(s)", t.eval_count()));
  row("eval duration:", format_duration(t.done.eval_time()));
  row("eval rate:", fmt::format("{:.2f} tokens/s", per_second(t.eval_count(), t.done.eval_time())));
  if (const runtime::Usage& usage = t.done.finish.usage; usage.draft_tokens > 0)
    row("guessed ahead:",
        fmt::format("{} token(s), {} of them right", usage.draft_tokens, usage.draft_accepted));
  row("stopped by:", std::string(t.reason()));
  row("seed:", std::to_string(t.seed));
}

void print_json(const Timings& t, const std::string& text) {
  nlohmann::ordered_json json;
  json["text"] = text;
  json["tokens"] = t.done.tokens;
  json["stop_reason"] = t.reason();
  json["seed"] = t.seed;
  json["load_seconds"] = Seconds(t.load).count();
  json["prompt_tokens"] = t.prompt_count();
  json["prompt_seconds"] = Seconds(t.done.prompt_time()).count();
  json["prompt_tokens_per_second"] = per_second(t.prompt_count(), t.done.prompt_time());
  json["time_to_first_token_seconds"] = Seconds(t.done.prompt_time()).count();
  json["eval_tokens"] = t.eval_count();
  json["eval_seconds"] = Seconds(t.done.eval_time()).count();
  json["eval_tokens_per_second"] = per_second(t.eval_count(), t.done.eval_time());
  json["draft_tokens"] = t.done.finish.usage.draft_tokens;
  json["draft_accepted"] = t.done.finish.usage.draft_accepted;
  fmt::print("{}\n", json_text(json));
}

// A random seed, so that two runs differ; it is shown, so that either can be repeated.
uint64_t fresh_seed() {
  uint64_t seed = 0;
  if (getentropy(&seed, sizeof seed) != 0)
    seed = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return seed >> 32;  // short enough to type
}

void write_text(std::string_view text) {
  if (text.empty()) return;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    fail(Errc::kIo, "stdout: cannot write");
}

// For `butterfly chat` without a name.
std::string only_stored_model() {
  const ModelStore store = ModelStore::of_user();
  const auto models = store.list();
  if (models.size() == 1) return models.front().name;
  std::string names;
  for (const StoredModel& stored : models) names += (names.empty() ? "" : ", ") + stored.name;
  if (models.empty())
    fail(Errc::kNotFound, "the store ({}) has no model: butterfly chat FILE, or butterfly import FILE first",
         store.own().string());
  fail(Errc::kInvalidArgument, "which model? butterfly chat NAME, with one of: {}", names);
}

int run(RunOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (options.only_talk && options.model.path.empty()) options.model.path = only_stored_model();
  const bool talk = options.text.is_left_to_a_person() && !options.json;
  const std::string prompt = talk ? "" : options.text.read();
  options.request.sampling.seed = options.seed ? *options.seed : fresh_seed();
  options.request.sampling.check();
  if (options.tokens >= 0) options.request.tokens_max = static_cast<size_t>(options.tokens);

  std::optional<ClusterRun> cluster;
  if (options.nodes.wanted()) cluster.emplace(options.nodes, options.threads);
  Compute compute(cluster ? 1 : options.threads);
  runtime::LoadOptions load;
  load.context = options.context;
  const std::optional<size_t> predict = runtime::parse_predict(options.predict);
  load.with_predictor = predict != size_t{0};
  for (const std::string& text : options.adapters) load.adapters.push_back(model::parse_adapter_spec(text));
  const std::vector<model::AdapterSpec> adapters = load.adapters;
  const std::unique_ptr<runtime::LoadedModel> model =
      cluster ? options.model.describe(std::move(load))
              : options.model.load(compute.take().pool(), std::move(load));
  const model::Tokenizer& tokenizer = model->tokenizer_or_throw();
  // Without a template there is nothing to talk through: then a text is missing, and read() says so.
  if (talk && !options.chat && !options.only_talk && !model->file.metadata().has("tokenizer.chat_template"))
    options.text.read();
  const size_t context =
      options.context > 0 ? options.context : std::min(model->config.context, kDefaultContext);
  if (context > model->config.context)
    fmt::print(stderr, "butterfly: note: -c {} is beyond the {} positions the model was trained for\n",
               context, model->config.context);
  runtime::LocalEngineOptions stream =
      runtime::one_stream(context, cache_type(options.cache_type), std::clamp<size_t>(options.batch, 1, 512));
  stream.engine.scheduler.predict_always = predict;
  const std::unique_ptr<runtime::Engine> local =
      cluster ? nullptr : runtime::make_local_engine(*model, compute, stream);
  runtime::Engine* const engine =
      cluster ? &cluster->serve(options.model.resolved(), *model, adapters, stream, options.quiet)
              : local.get();
  std::optional<Conversation> conversation;
  if (talk || options.chat || options.only_talk)
    conversation.emplace(*engine, tokenizer, chat_template_of(*model));
  if (!conversation && !options.system.empty())
    fail(Errc::kInvalidArgument, "--system is for conversations: add --chat, or leave the text out");
  if (conversation && !options.system.empty()) conversation->set_system(options.system);

  if (talk)
    return cli::talk(*conversation, {.model = std::filesystem::path(options.model.path).stem().string(),
                                     .request = options.request,
                                     .quiet = options.quiet});
  if (!conversation && !options.quiet && !options.json && options.text.is_like_a_message() &&
      model->file.metadata().has("tokenizer.chat_template"))
    fmt::print(stderr,
               "butterfly: note: the text is gone on with as it is; --chat has it answered as a message\n");
  std::string text;
  const runtime::TextSink sink = [&](std::string_view piece) {
    if (options.json) {
      text += piece;
    } else {
      write_text(piece);
    }
    return !interrupted();
  };
  model::EncodeOptions encode;
  if (options.no_bos) encode.add_bos = false;
  runtime::EngineRequest request(options.request);
  if (!conversation) request.prompt = tokenizer.encode(prompt, encode);
  if (request.prompt.size() > engine->context())
    fail(Errc::kInvalidArgument,
         "the prompt has {} tokens, the context holds {}; use a larger -c or a shorter prompt",
         request.prompt.size(), engine->context());
  const auto done = conversation ? conversation->ask(prompt, options.request, sink)
                                 : runtime::complete(*engine, std::move(request), sink);
  if (!options.json) write_text("\n");
  const Timings timings{std::chrono::steady_clock::now() - start, model->load_time, done,
                        options.request.sampling.seed};
  if (options.json) print_json(timings, text);
  if (!options.quiet && !options.json) print_timings(timings);
  return done.finish.reason == runtime::FinishReason::kCancelled ? kExitInterrupted : kExitOk;
}

void add_sampling_flags(CLI::App& app, RunOptions& options) {
  model::SamplerSettings& s = options.request.sampling;
  const char* group = "Sampling";
  add_option(app, "--temp", s.temperature, "Temperature; 0 takes the likeliest token")
      .group(group)
      .show_default();
  add_option(app, "--top-k", s.top_k, "Only the K likeliest; 0: all").group(group).show_default();
  add_option(app, "--top-p", s.top_p, "Only the likeliest with this share; 1: all")
      .group(group)
      .show_default();
  add_option(app, "--min-p", s.min_p, "Only those with this share of the best's probability; 0: all")
      .group(group)
      .show_default();
  add_option(app, "-s,--seed", options.seed, "Seed; the same seed gives the same text (default: a fresh one)")
      .group(group);
  add_option(app, "--repeat-penalty", s.repeat_penalty, "Divides the logits of repeated tokens; 1: off")
      .group(group)
      .show_default();
  add_option(app, "--repeat-last-n", s.repeat_last_n, "Tokens the penalties look back on; -1: all")
      .group(group)
      .show_default();
  add_option(app, "--frequency-penalty", s.frequency_penalty, "Subtracted per occurrence; 0: off")
      .group(group)
      .show_default();
  add_option(app, "--presence-penalty", s.presence_penalty, "Subtracted if it occurs; 0: off")
      .group(group)
      .show_default();
}

}  // namespace

namespace {

std::shared_ptr<RunOptions> add_run_flags(CLI::App& app, bool only_talk) {
  auto options = std::make_shared<RunOptions>();
  options->only_talk = only_talk;
  options->model.add_to(app, !only_talk);
  options->text.add_to(app, true);
  if (!only_talk)
    add_flag(app, "--chat", options->chat,
             "The text is a message: answer it, through the model's chat template");
  add_option(app, "--system", options->system, "A message in front of a conversation").type_name("TEXT");
  add_option(app, "-n,--predict", options->tokens, "Tokens to generate; -1: until the text ends")
      .show_default();
  add_option(app, "-c,--ctx-size", options->context, "Positions of context; 0: the model's, at most 4096")
      .show_default();
  add_threads_flag(app, options->threads);
  add_option(app, "-r,--stop", options->request.stops, "Stop at this text (several: repeat the flag)");
  add_flag(app, "--ignore-eos", options->request.ignore_eos, "Go on past the end of the text");
  add_flag(app, "--no-bos", options->no_bos, "Leave out the beginning-of-text token the model asks for");
  add_option(app, "-b,--batch-size", options->batch, "Prompt tokens per step, up to 512").show_default();
  add_option(app, "--cache-type", options->cache_type, "Key/value cache: f16, f32 or q8_0").show_default();
  add_option(app, "--mtp", options->predict,
             "Tokens that the model's own block guesses in each step (multi-token prediction), where the "
             "file has one: auto, off or a number; not over nodes")
      .type_name("N")
      .show_default();
  add_lora_flag(app, options->adapters);
  options->nodes.add_to(app);
  add_flag(app, "-q,--quiet", options->quiet, "No timings");
  add_sampling_flags(app, *options);
  add_json_flag(app, options->json);
  return options;
}

}  // namespace

CommandBody setup_run(CLI::App& app) {
  auto options = add_run_flags(app, false);
  set_footer(app, "Without a text, at a terminal, a model with a chat template holds a conversation.");
  return [options] { return run(*options); };
}

CommandBody setup_chat(CLI::App& app) {
  auto options = add_run_flags(app, true);
  set_footer(app, "Without a model: the one of the store, if there is one. With a text: one answer.");
  return [options] { return run(*options); };
}

}  // namespace butterfly::cli
