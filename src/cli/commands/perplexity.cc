// `butterfly perplexity`: how well a model predicts a text.
#include "runtime/measure/perplexity.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/flags.h"
#include "cli/console/interrupt.h"
#include "cli/console/options.h"
#include "cli/console/progress.h"
#include "cli/console/text_input.h"
#include "cli/models/model_input.h"
#include "runtime/measure/local_parts.h"

namespace butterfly::cli {
namespace {

struct PerplexityCommand {
  ModelInput model;
  TextInput text;
  runtime::PerplexityOptions options;
  int64_t chunks = -1;
  size_t threads = 0;
  size_t parts = 1;
  std::string wire = "f32";
  bool json = false;
};

constexpr size_t kChunk = 512;

// The model as a chain of `parts` would run it, rows between them as `wire`.
runtime::LocalParts load_parts(const PerplexityCommand& command, ThreadPool& pool) {
  const runtime::RowFormat& format = runtime::find_row_format(command.wire);
  const size_t layers = model::read_config(command.model.open()).layers;
  std::vector<std::unique_ptr<runtime::LoadedModel>> parts;
  for (const model::LayerRange& range : runtime::equal_ranges(layers, command.parts)) {
    runtime::LoadOptions load;
    load.context = command.options.context;
    load.with_tokenizer = parts.empty();
    load.range = range;
    parts.push_back(command.model.load(pool, std::move(load)));
  }
  return {std::move(parts),
          pool,
          {.positions = command.options.context, .sequences = 1, .kv_type = DType::kF16, .rows_max = 512},
          format};
}

int perplexity(PerplexityCommand& command) {
  const std::string text = command.text.read();
  const size_t trained = model::read_config(command.model.open()).context;
  if (command.options.context == 0) command.options.context = std::min(kChunk, trained);
  if (command.options.context > trained)
    fmt::print(stderr,
               "butterfly: note: -c {} is beyond the {} positions the model was trained for, which makes it "
               "worse than it is\n",
               command.options.context, trained);
  if (command.chunks >= 0) command.options.chunks_max = static_cast<size_t>(command.chunks);
  ThreadPool pool(command.threads);
  runtime::LocalParts model = load_parts(command, pool);
  const model::Tokenizer& tokenizer = model.tokenizer();
  const auto tokens = tokenizer.encode(text, {});
  std::optional<int32_t> bos;
  if (tokenizer.adds_bos()) bos = tokenizer.bos();
  runtime::Perplexity result;
  {
    Progress bar("perplexity", 1);
    result = runtime::measure_perplexity(model.scored(), tokens, bos, command.options,
                                         [&](const runtime::Perplexity& so_far, size_t chunks) {
                                           bar.set_label(fmt::format("perplexity {:.4f}", so_far.value));
                                           bar.update(so_far.chunks, chunks);
                                           return !interrupted();
                                         });
  }
  if (command.json) {
    nlohmann::ordered_json json;
    json["perplexity"] = result.value;
    json["uncertainty"] = result.uncertainty;
    json["mean_nll"] = result.mean_nll;
    json["tokens"] = result.tokens;
    json["chunks"] = result.chunks;
    json["n_ctx"] = command.options.context;
    json["stride"] = command.options.stride;
    json["parts"] = command.parts;
    json["wire"] = command.wire;
    json["text_tokens"] = tokens.size();
    fmt::print("{}\n", json_text(json));
  } else {
    fmt::print("PPL = {:.4f} +/- {:.5f} over {} tokens in {} chunks of {}\n", result.value,
               result.uncertainty, result.tokens, result.chunks, command.options.context);
  }
  return interrupted() ? kExitInterrupted : kExitOk;
}

}  // namespace

CommandBody setup_perplexity(CLI::App& app) {
  auto command = std::make_shared<PerplexityCommand>();
  command->options.context = 0;
  command->model.add_to(app);
  command->text.add_to(app);
  add_option(app, "-c,--ctx-size", command->options.context,
             "Tokens per chunk; 0: the model's context, at most 512")
      .show_default();
  add_option(app, "--stride", command->options.stride,
             "Chunks begin every N tokens, the last N of each are scored; 0: side by side, the second half")
      .show_default();
  add_option(app, "--chunks", command->chunks, "At most this many chunks; -1: all").show_default();
  add_option(app, "--parts", command->parts, "Cut the model as a chain of so many nodes would")
      .show_default();
  add_option(app, "--wire", command->wire, "How rows travel between the parts: f32 (exact), f16, int8")
      .show_default();
  add_threads_flag(app, command->threads);
  add_json_flag(app, command->json);
  return [command] { return perplexity(*command); };
}

}  // namespace butterfly::cli
