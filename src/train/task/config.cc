#include "train/task/config.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <type_traits>

#include "base/error.h"
#include "base/near_names.h"
#include "train/data/text_file.h"
#include "train/trainer/gradient_wire.h"

namespace butterfly::train {
namespace {

namespace fs = std::filesystem;

template <typename T>
void parse(const std::string& where, const std::string& text, T& value) {
  const auto wrong = [&](const char* expected) {
    fail(Errc::kInvalidArgument, "{} is '{}', expected {}", where, text, expected);
  };
  if constexpr (std::is_same_v<T, std::string>) {
    value = text;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (text == "true" || text == "yes" || text == "1") {
      value = true;
    } else if (text == "false" || text == "no" || text == "0") {
      value = false;
    } else {
      wrong("true or false");
    }
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    value = list_of_text(text);
  } else if constexpr (std::is_same_v<T, std::vector<double>>) {
    value.clear();
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) parse(where, part, value.emplace_back());
  } else {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      wrong(std::is_floating_point_v<T> ? "a number" : "a whole number from 0 on");
  }
}

std::string from_folder(const fs::path& folder, const std::string& path) {
  if (path.empty() || fs::path(path).is_absolute()) return path;
  return (folder / path).lexically_normal().string();
}

// A template is a file or the Jinja text itself, which no file is called.
std::string template_from_folder(const fs::path& folder, const std::string& text) {
  const std::string path = from_folder(folder, text);
  std::error_code error;
  return text.find('{') == std::string::npos && fs::exists(path, error) ? path : text;
}

struct Reader {
  const fs::path& path;
  TrainConfig& config;
  std::vector<std::string> passed_over = {};

  std::string place(const YAML::Node& node) const {
    return fmt::format("{}:{}", path.string(), node.Mark().line + 1);
  }

  // A list of values, or of maps with a key "path" as axolotl has them.
  std::string joined(const std::string& key, const YAML::Node& list) const {
    std::vector<std::string> all;
    for (const YAML::Node& item : list) {
      const YAML::Node text = item.IsMap() ? item["path"] : item;
      if (!text || !text.IsScalar())
        fail(Errc::kInvalidArgument, "{}: an entry of {} has no path", place(item), key);
      all.push_back(is_path(key) ? from_folder(path.parent_path(), text.Scalar()) : text.Scalar());
    }
    return text_of_list(all);
  }

  void read(const std::string& typed, const YAML::Node& node) {
    if (says_nothing_here(typed)) {
      passed_over.push_back(typed);
      return;
    }
    const std::string key(own_key(typed));  // paths are known by our names
    if (node.IsMap()) {
      for (const auto& entry : node)
        read(key.empty() ? entry.first.Scalar() : key + "." + entry.first.Scalar(), entry.second);
      return;
    }
    std::string text;
    if (node.IsSequence()) {
      text = joined(key, node);
    } else if (!node.IsNull()) {
      text = node.Scalar();
      if (is_path(key)) text = from_folder(path.parent_path(), text);
      if (key == "chat_template") text = template_from_folder(path.parent_path(), text);
    }
    try {
      set_config_value(config, key, text);
    } catch (const Error& error) {
      fail(error.code(), "{}: {}", place(node), error.what());
    }
  }
};

// What other programs call our keys.
struct Alias {
  std::string_view name, key;
};
constexpr Alias kAliases[] = {
    {"beta", "rl_beta"},
    {"dpo_beta", "rl_beta"},
    {"lora_rank", "lora_r"},
    {"lr", "learning_rate"},
    {"lr_scheduler_type", "lr_scheduler"},
    {"max_length", "sequence_len"},
    {"max_seq_len", "sequence_len"},
    {"max_seq_length", "sequence_len"},
    {"model_name_or_path", "base_model"},
    {"num_train_epochs", "num_epochs"},
    {"optim", "optimizer"},
    {"packing", "sample_packing"},
    {"per_device_train_batch_size", "micro_batch_size"},
    {"r", "lora_r"},
    {"rank", "lora_r"},
    {"target_modules", "lora_target_modules"},
    {"adapter_name_or_path", "lora_model_dir"},
    {"block_size", "sequence_len"},
    {"dataset_path", "datasets"},
    {"eval_dataset", "test_datasets"},
    {"learning_rate_schedule", "lr_scheduler"},
    {"train_dataset", "datasets"},
    {"train_file", "datasets"},
    {"tokenizer_name_or_path", "tokenizer"},
    {"validation_file", "test_datasets"},
    {"warmup_proportion", "warmup_ratio"},
};

// What they call values of ours. Optimizers: the arithmetic is the same, how it is carried out is not.
constexpr Alias kValues[] = {
    {"adamw_torch", "adamw"},
    {"adamw_torch_fused", "adamw"},
    {"adamw_hf", "adamw"},
    {"constant_with_warmup", "constant"},
    {"cosine_with_min_lr", "cosine"},
};

// Keys of theirs that say how a machine is to compute, or whom to tell: nothing that is learned depends on
// them here, and configs have them.
constexpr std::string_view kNothingHere[] = {
    "bf16",
    "fp16",
    "tf32",
    "float16",
    "bfloat16",
    "load_in_8bit",
    "load_in_4bit",
    "flash_attention",
    "sdp_attention",
    "xformers_attention",
    "attn_implementation",
    "torch_dtype",
    "device_map",
    "local_rank",
    "deepspeed",
    "fsdp",
    "fsdp_config",
    "ddp",
    "report_to",
    "push_to_hub",
    "hub_model_id",
    "wandb_project",
    "wandb_entity",
    "wandb_watch",
    "wandb_name",
    "wandb_log_model",
    "strict",
    "debug",
    "model_type",
    "tokenizer_type",
    "trust_remote_code",
    "use_cache",
    "pad_to_sequence_len",
    "is_llama_derived_model",
    "logging_dir",
    "run_name",
    "task_type",
    "inference_mode",
    "peft_type",
};

std::string_view own_name(std::string_view key) {
  for (const Alias& alias : kAliases)
    if (alias.name == key) return alias.key;
  return key;
}

std::string own_value(std::string_view key, const std::string& value) {
  if (key == "optimizer" || key == "lr_scheduler")
    for (const Alias& alias : kValues)
      if (alias.name == value) return std::string(alias.key);
  return value;
}

}  // namespace

bool is_path(std::string_view key) {
  return key == "base_model" || key == "tokenizer" || key == "datasets" || key == "test_datasets" ||
         key == "output_dir" || key == "model.network" || key == "lora_model_dir" ||
         key == "dataset_prepared_path";
}

std::vector<std::string> list_of_text(std::string_view text) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  parts.emplace_back();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("\\,")) {
      parts.back() += text[++i];
    } else if (text[i] == ',') {
      parts.emplace_back();
    } else {
      parts.back() += text[i];
    }
  }
  return parts;
}

std::string text_of_list(std::span<const std::string> parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (&part != parts.data()) text += ',';
    for (const char c : part) text += c == ',' ? std::string("\\,") : std::string(1, c);
  }
  return text;
}

std::string_view own_key(std::string_view typed) { return own_name(typed); }

bool says_nothing_here(std::string_view key) {
  return std::find(std::begin(kNothingHere), std::end(kNothingHere), key) != std::end(kNothingHere);
}

void set_config_value(TrainConfig& config, std::string_view typed, const std::string& given) {
  const std::string_view key = own_name(typed);
  const std::string value = own_value(key, given);
  bool found = false;
  std::vector<std::string_view> names;
  visit_fields(config, [&](std::string_view name, auto& field, std::string_view) {
    names.push_back(name);
    if (name != key) return;
    parse(std::string(key), value, field);
    found = true;
  });
  if (found) return;
  for (const Alias& alias : kAliases) names.push_back(alias.name);
  fail(Errc::kInvalidArgument, "unknown key '{}'{}", key, did_you_mean(key, names));
}

std::vector<std::string> read_config_file(const fs::path& path, TrainConfig& config) {
  const std::string text = read_text(path);
  YAML::Node root;
  try {
    root = YAML::Load(text);
  } catch (const YAML::Exception& error) {
    fail(Errc::kInvalidArgument, "{}:{}: {}", path.string(), error.mark.line + 1, error.msg);
  }
  if (!root.IsMap()) fail(Errc::kInvalidArgument, "{}: expected keys and values", path.string());
  Reader reader{path, config};
  reader.read("", root);
  return reader.passed_over;
}

std::string config_text(const TrainConfig& config) {
  std::string text;
  visit_fields(config, [&](std::string_view name, const auto& field, std::string_view) {
    using T = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      text += fmt::format("{}: {}\n", name, text_of_list(field));
    } else if constexpr (std::is_same_v<T, std::vector<double>>) {
      text += fmt::format("{}: {}\n", name, fmt::join(field, ","));
    } else {
      text += fmt::format("{}: {}\n", name, field);
    }
  });
  return text;
}

TrainConfig config_of_text(std::string_view text) {
  TrainConfig config;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) fail(Errc::kInvalidArgument, "'{}': expected a key and a value", line);
    set_config_value(config, line.substr(0, colon), line.substr(colon + 2));
  }
  return config;
}

OptimizerOptions optimizer_options(const TrainConfig& config) {
  return {.name = config.optimizer,
          .beta1 = config.adam_beta1,
          .beta2 = config.adam_beta2,
          .eps = config.adam_epsilon,
          .momentum = config.momentum,
          .nesterov = config.nesterov,
          .weight_decay = config.weight_decay,
          .decay_vectors = config.decay_vectors,
          .bf16_moments = config.bf16_moments};
}

void check_config(const TrainConfig& c) {
  const auto need = [](bool good, std::string_view key, std::string_view expected) {
    if (!good) fail(Errc::kInvalidArgument, "{}: expected {}", key, expected);
  };
  need(!c.base_model.empty() || !c.tokenizer.empty() || !c.model.network.empty(), "tokenizer",
       "a file, as there is neither base_model nor model.network");
  need(!c.image_mean.empty(), "image_mean", "a number, or one for each channel");
  need(!c.image_std.empty() &&
           std::all_of(c.image_std.begin(), c.image_std.end(), [](double d) { return d > 0; }),
       "image_std", "numbers above 0");
  need(c.model.initializer_range > 0, "model.initializer_range", "more than 0");
  need(c.sequence_len > 0, "sequence_len", "1 or more");
  need(c.micro_batch_size > 0, "micro_batch_size", "1 or more");
  need(c.gradient_accumulation_steps > 0, "gradient_accumulation_steps", "1 or more");
  need(c.max_steps > 0 || c.num_epochs > 0, "num_epochs", "more than 0, or max_steps");
  need(c.learning_rate > 0, "learning_rate", "more than 0");
  need(c.save_total_limit > 0, "save_total_limit", "1 or more");
  need(c.workers > 0 && c.workers <= 1024, "workers", "1 to 1024");
  need(c.dropout >= 0 && c.dropout < 1, "dropout", "0 to below 1");
  need(c.adapter.empty() || c.adapter == "lora", "adapter", "lora, or nothing for all weights");
  need(c.adapter.empty() || !c.base_model.empty(), "adapter", "a base_model, which the adapter is for");
  need(c.adapter.empty() || c.tokenizer.empty(), "tokenizer",
       "nothing with adapter: the base_model's is the one it is used with");
  need(c.rl.empty() || c.rl == "dpo", "rl", "dpo, or nothing");
  need(c.rl.empty() || !c.adapter.empty(), "rl",
       "adapter: lora with it: the model without it is the reference");
  need(c.rl.empty() || (c.dropout == 0 && c.lora_dropout == 0), "rl", "dropout 0 and lora_dropout 0 with it");
  need(c.rl_beta > 0, "rl_beta", "more than 0");
  need(c.lora_r > 0, "lora_r", "1 or more");
  need(c.lora_alpha > 0, "lora_alpha", "more than 0");
  need(c.lora_dropout >= 0 && c.lora_dropout < 1, "lora_dropout", "0 to below 1");
  need(c.lora_model_dir.empty() || !c.adapter.empty(), "lora_model_dir", "adapter: lora with it");
  checked_optimizer(optimizer_options(c));
  if (c.update_in_backward) {
    const std::string_view key = "update_in_backward";
    need(c.max_grad_norm == 0, key, "max_grad_norm 0: the norm is known when all gradients are");
    need(c.gradient_accumulation_steps == 1, key, "gradient_accumulation_steps 1: a gradient is whole then");
    need(c.workers == 1, key, "workers 1: others would read weights that change");
  }
  need(c.warmup_ratio >= 0 && c.warmup_ratio <= 1, "warmup_ratio", "0 to 1");
  need(c.warmup_ratio == 0 || c.warmup_steps == 0, "warmup_ratio", "0 with warmup_steps: they say the same");
  need(c.val_set_size >= 0 && (c.val_set_size < 1 || c.val_set_size == std::floor(c.val_set_size)),
       "val_set_size", "a part below 1, or a number of items");
  need(c.val_set_size == 0 || c.test_datasets.empty(), "val_set_size", "0 with test_datasets");
  need(wire_mode_by_name(c.wire_mode) == WireMode::kExact || !c.update_in_backward, "update_in_backward",
       "wire_mode exact: others are of whole gradients");
  const auto& compress = c.wire_compress;
  need(compress == "off" || compress == "auto" || compress == "lz4" || compress == "lz4-frame" ||
           compress == "zstd",
       "wire_compress", "off, auto, lz4, lz4-frame or zstd");
  need(c.wire_socket_bytes == 0 || (c.wire_socket_bytes >= 4096 && c.wire_socket_bytes <= (1u << 30)),
       "wire_socket_bytes", "0, or from 4096 to 1 GiB");
  need(c.wire_bucket_bytes >= 4096, "wire_bucket_bytes", "4096 or more");
  need(c.local_steps > 0, "local_steps", "1 or more");
  need(c.merge_quorum > 0 && c.merge_quorum <= 1, "merge_quorum", "more than 0, at most 1");
  need(c.merge_quorum == 1 || makes_local_steps(wire_mode_by_name(c.wire_mode)), "merge_quorum",
       "1 without wire_mode local-steps: other steps are whole or none");
  need(c.merge_grace >= 0, "merge_grace", "0 or more");
  need(c.outer_learning_rate > 0, "outer_learning_rate", "more than 0");
  need(c.outer_momentum >= 0 && c.outer_momentum < 1, "outer_momentum", "0 to below 1");
  need(c.pipeline_stages <= 256, "pipeline_stages", "0 to 256");
  need(c.logging_steps > 0, "logging_steps", "1 or more");
  need(c.resume_from_checkpoint.empty() || c.resume_from_checkpoint == "best" ||
           c.resume_from_checkpoint.starts_with("step-"),
       "resume_from_checkpoint", "best, or the name of a checkpoint: step-0000000200");
  need(c.early_stopping_patience == 0 || c.eval_steps > 0, "early_stopping_patience", "eval_steps with it");
  need(c.dataloader_prefetch_factor > 0, "dataloader_prefetch_factor", "1 or more");
}

}  // namespace butterfly::train
