// `butterfly make-model`: a model file with random weights, for tests, benchmarks and demos.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/units.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/flags.h"
#include "cli/console/interrupt.h"
#include "cli/console/options.h"
#include "cli/console/progress.h"
#include "model/synthetic/random_model.h"

namespace butterfly::cli {
namespace {

struct MakeModelOptions {
  std::string path;
  model::RandomModelOptions model;
  std::string type = "Q8_0";
  std::string vocabulary_type;  // empty: as `type`
  std::string expert_type;      // the same
  std::optional<uint32_t> kv_heads;
};

DType type_named(const char* flag, const std::string& name) {
  const std::optional<DType> dtype = dtype_by_name(name);
  if (!dtype)
    fail(Errc::kInvalidArgument, "{}: no element type '{}'; there are F32, F16, Q8_0, Q4_K …", flag, name);
  return *dtype;
}

int make_model(const MakeModelOptions& options) {
  model::RandomModelOptions wanted = options.model;
  wanted.matrix_type = type_named("--type", options.type);
  wanted.vocabulary_type = options.vocabulary_type.empty()
                               ? wanted.matrix_type
                               : type_named("--vocab-type", options.vocabulary_type);
  if (!options.expert_type.empty()) wanted.expert_type = type_named("--expert-type", options.expert_type);
  wanted.head_count_kv = options.kv_heads.value_or(wanted.head_count);

  std::optional<Progress> bar;
  // Interrupted or failed, there is no half-written file: it appears whole, at the end.
  model::write_random_model(options.path, wanted, [&](uint64_t done, uint64_t total) {
    throw_if_interrupted();
    if (!bar) bar.emplace("writing", total, ProgressUnit::kBytes);
    bar->update(done);
  });
  bar.reset();
  fmt::print(stderr, "wrote {} ({})\n", options.path, format_bytes(std::filesystem::file_size(options.path)));
  return kExitOk;
}

}  // namespace

CommandBody setup_make_model(CLI::App& app) {
  auto options = std::make_shared<MakeModelOptions>();
  model::RandomModelOptions& model = options->model;
  add_option(app, "OUT", options->path, "The GGUF file to write; replaced only when all went well")
      .required();
  std::string names;
  for (const auto& row : butterfly::model::random_architectures())
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  add_option(app, "--arch", model.architecture, "Architecture: " + names).type_name("NAME").show_default();
  add_option(app, "--type", options->type, "Element type of the matrices").type_name("TYPE").show_default();
  add_option(app, "--vocab-type", options->vocabulary_type,
             "Element type of embedding and output (default: --type)")
      .type_name("TYPE");
  add_option(app, "--expert-type", options->expert_type, "Element type of routed experts (default: --type)")
      .type_name("TYPE");
  const auto size = [&](const char* name, uint32_t& value, const char* words) {
    add_option(app, name, value, words).type_name("N").show_default();
  };
  size("--dim", model.embedding_length, "Embedding length");
  size("--layers", model.block_count, "Transformer blocks");
  size("--hidden", model.feed_forward_length, "Feed-forward length");
  size("--heads", model.head_count, "Attention heads");
  add_option(app, "--kv-heads", options->kv_heads, "Key and value heads (default: --heads)").type_name("N");
  size("--head-size", model.head_length, "Values of a head; 0: --dim / --heads");
  size("--window", model.sliding_window, "Positions that local layers see, where an architecture has such");
  size("--experts", model.expert_count, "Experts of a layer, where an architecture has them");
  size("--experts-used", model.expert_used_count, "Experts per token");
  size("--state-size", model.state_length, "Values of a head of linear attention (qwen35); 0: as attention");
  size("--state-heads", model.state_head_count, "Its value heads; 0: --heads");
  size("--state-kv-heads", model.state_head_count_kv, "Its key heads; 0: --kv-heads");
  size("--window-period", model.window_period, "gemma4: every so many layers one sees all positions");
  size("--layer-input", model.layer_input_length,
       "gemma4: values of a layer's own input; 0: a block of the type");
  size("--shared-kv", model.shared_kv_layers,
       "gemma4: layers that read earlier ones' keys; 0: as few as can be");
  size("--predicting-blocks", model.predicting_blocks,
       "1: a block that predicts ahead (multi-token prediction), where an architecture has one");
  size("--vocab", model.vocabulary_size, "Tokens in the made-up vocabulary");
  size("--context", model.context_length, "Context length");
  add_option(app, "--rope-base", model.rope_freq_base, "Rope frequency base").type_name("X").show_default();
  add_flag(app, "--tied", model.tied, "Use the token embedding as output matrix too");
  add_option(app, "-s,--seed", model.seed, "Seed of the weights: same flags, same bytes")
      .type_name("N")
      .show_default();
  return [options] { return make_model(*options); };
}

}  // namespace butterfly::cli
