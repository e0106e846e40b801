// What a training run is told: a YAML file with the names that axolotl, TRL and Hugging Face use, or flags.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/optim/optimizer.h"

namespace butterfly::train {

// One line here, one in visit_fields(): file, flags, help and print follow. Nested keys are joined with a
// dot: "model.hidden_size".
struct TrainConfig {
  std::string base_model;     // a model file to go on from; empty: fresh weights of `model`
  std::string tokenizer;      // a file with one; empty: that of base_model
  std::string chat_template;  // Jinja, or the name of a file with it; empty: the tokenizer's, or ChatML

  // "lora": base_model stays as it is, packed and quantised, and an adapter beside it learns. Empty: all
  // weights learn.
  std::string adapter;
  uint64_t lora_r = 16;
  double lora_alpha = 32;
  double lora_dropout = 0;
  std::vector<std::string> lora_target_modules;  // q_proj, ...; empty: all of attention and feed-forward
  bool lora_target_linear = false;               // the same, as axolotl says it
  bool use_rslora = false;                       // alpha is divided by the root of the rank
  std::string rl;              // "dpo": answers of pairs are preferred; empty: texts are learned
  double rl_beta = 0.1;        // how near to the model without adapter it stays
  std::string lora_model_dir;  // an adapter to go on from: a folder of PEFT's, or GGUF

  struct Model {
    std::string name;     // what the file says it is
    std::string network;  // TOML file of an image network (image_network.h), instead of a transformer
    std::string model_type = "llama";
    uint32_t hidden_size = 256;
    uint32_t intermediate_size = 768;
    uint32_t num_hidden_layers = 4;
    uint32_t num_attention_heads = 8;
    uint32_t num_key_value_heads = 0;  // 0: as many as heads
    uint32_t max_position_embeddings = 512;
    double rope_theta = 10000;
    bool tie_word_embeddings = true;
    double initializer_range = 0.02;
  } model;

  // .jsonl, .txt, .u16, .u32; images: IDX files, or folders with a sub-folder for each class; tables for
  // networks of the same description: .csv, .jsonl
  std::vector<std::string> datasets;
  std::vector<std::string> test_datasets;  // for validation
  bool skip_bad = false;                   // lines that cannot be read are left out and counted
  bool train_on_inputs = false;            // true: of chats also the questions are learned
  std::string dataset_prepared_path;       // where tokens are kept; empty: in output_dir
  double val_set_size =
      0;  // without test_datasets: so much of the data is kept for validation; a part, or items
  uint64_t sequence_len = 256;
  bool sample_packing = true;  // several documents share a window, unseen by each other; false: one a window
  std::vector<double> image_mean = {
      0};                               // pixels become (value in 0 to 1 - mean) / std; one for each channel,
  std::vector<double> image_std = {1};  // or one for all
  bool image_flip = false;              // half of the images, drawn anew each time, are seen in a mirror
  uint64_t image_crop = 0;              // images are moved by up to so many pixels, drawn anew each time

  uint64_t micro_batch_size = 8;
  uint64_t gradient_accumulation_steps = 1;
  double num_epochs = 1;
  uint64_t max_steps = 0;  // 0: by epochs
  std::string optimizer = "adamw";
  double learning_rate = 1e-3;
  std::string lr_scheduler = "cosine";
  uint64_t warmup_steps = 0;
  double warmup_ratio = 0;  // without warmup_steps: as part of all steps
  double cosine_min_lr_ratio = 0.1;
  double weight_decay = 0;
  bool decay_vectors = false;  // true: norms and biases decay too
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  bool bf16_moments = false;  // of adam and adamw: half their memory
  double momentum = 0;
  bool nesterov = false;
  double max_grad_norm = 1;
  double dropout = 0;
  uint64_t seed = 42;
  bool gradient_checkpointing = false;  // less memory, more arithmetic, the same weights
  bool update_in_backward = false;      // less memory, the same weights; see TrainerOptions
  // How gradients go between machines. Anything but exact changes the weights, on one machine too, in a way
  // that depends on the slots and not on the machines.
  std::string wire_mode = "exact";
  uint64_t wire_slots = 0;  // parts of a step that are coded each by itself; 0: one for each node
  // With local-steps: the steps that each of wire_slots makes by itself before weights are exchanged, and
  // what is made of the mean change: SGD with Nesterov momentum.
  uint64_t local_steps = 8;
  double outer_learning_rate = 0.7, outer_momentum = 0.9;
  // Over several nodes: once this part of them has made its steps and merge_grace seconds have passed, the
  // others end theirs with what they have. 1: all are waited for, and the weights do not depend on time.
  double merge_quorum = 1, merge_grace = 2;

  std::string wire_compress = "auto";            // what goes between machines, where that is faster; no loss
  uint64_t wire_compress_min_bytes = 512 << 10;  // of a message
  // Gradients go out in buckets of so many bytes (as floats), each as soon as the backward pass has made it.
  uint64_t wire_bucket_bytes = 4 << 20;
  uint64_t wire_socket_bytes = 0;  // of a socket's buffers, each way; 0: the system finds them

  // Over several nodes: the layers are cut into so many stages at most, each on a node of its own, instead of
  // every node having all of them. 0: every node has all. The weights do not depend on it.
  uint64_t pipeline_stages = 0;

  std::string output_dir = "out";
  uint64_t logging_steps = 1;
  uint64_t eval_steps = 0;  // 0: at the end only
  uint64_t save_steps = 0;  // 0: at the end only
  uint64_t save_total_limit = 2;
  std::string resume_from_checkpoint;    // "best" or a checkpoint's name; empty: the newest
  bool load_best_model_at_end = false;   // the file gets the weights of the best validation, not the last
  uint64_t early_stopping_patience = 0;  // validations without a better one that end the run; 0: none do
  std::string export_type = "F16";       // of the GGUF file
  uint64_t workers = 1;                 // how many micro-batches run at once; the weights do not depend on it
  uint64_t threads = 0;                 // of each worker; 0: all CPUs shared out
  uint64_t dataloader_num_workers = 1;  // threads that make batches ahead; 0: none
  uint64_t dataloader_prefetch_factor = 128;  // batches ready at most
};

// Calls visit(name, field, words) for every field.
template <typename Config, typename Visit>
void visit_fields(Config& c, Visit&& visit) {
  visit("base_model", c.base_model, "Model file to go on from; empty: fresh weights");
  visit("tokenizer", c.tokenizer, "File with the tokenizer (default: that of base_model)");
  visit("chat_template", c.chat_template, "Jinja template, or a file with it");
  visit("adapter", c.adapter, "lora: base_model stays as it is, and an adapter beside it learns");
  visit("lora_r", c.lora_r, "Rank of the adapter's matrices");
  visit("lora_alpha", c.lora_alpha, "What the adapter adds is times alpha / rank");
  visit("lora_dropout", c.lora_dropout, "Part of what the adapter reads that is zeroed while learning");
  visit("lora_target_modules", c.lora_target_modules,
        "Matrices that get an adapter: q_proj, v_proj ...; all-linear (default)");
  visit("lora_target_linear", c.lora_target_linear, "The same as lora_target_modules: all-linear");
  visit("use_rslora", c.use_rslora, "What the adapter adds is times alpha / sqrt(rank)");
  visit("rl", c.rl, "dpo: learn from pairs of answers (chosen, rejected) which one is better");
  visit("rl_beta", c.rl_beta, "Of dpo: how near to the model without its adapter it stays");
  visit("lora_model_dir", c.lora_model_dir, "Adapter to go on from: a folder of PEFT's, or a GGUF file");
  visit("model.name", c.model.name, "Name of a fresh model, for its file");
  visit("model.network", c.model.network, "TOML file of an image network, instead of a transformer");
  visit("model.model_type", c.model.model_type, "Architecture of a fresh model: llama, gpt2, qwen2 ...");
  visit("model.hidden_size", c.model.hidden_size, "Values of a token between the layers");
  visit("model.intermediate_size", c.model.intermediate_size, "Values inside the feed-forward layers");
  visit("model.num_hidden_layers", c.model.num_hidden_layers, "Blocks");
  visit("model.num_attention_heads", c.model.num_attention_heads, "Attention heads");
  visit("model.num_key_value_heads", c.model.num_key_value_heads, "Key and value heads; 0: all");
  visit("model.max_position_embeddings", c.model.max_position_embeddings, "Context length");
  visit("model.rope_theta", c.model.rope_theta, "Rope frequency base");
  visit("model.tie_word_embeddings", c.model.tie_word_embeddings, "Embedding and output share a matrix");
  visit("model.initializer_range", c.model.initializer_range, "Deviation of fresh matrices");
  visit("datasets", c.datasets,
        "Files to learn from: .jsonl, .txt, .u16, .u32; IDX images, folders of images");
  visit("test_datasets", c.test_datasets, "Files for validation");
  visit("dataset_prepared_path", c.dataset_prepared_path,
        "Where tokens of texts are kept for the next start (default: in output_dir)");
  visit("val_set_size", c.val_set_size, "Without test_datasets: a part of the data, or so many items of it");
  visit("skip_bad", c.skip_bad, "Leave out lines that cannot be read, and say which, instead of ending");
  visit("train_on_inputs", c.train_on_inputs, "Learn the questions of chats too, not only the answers");
  visit("sequence_len", c.sequence_len, "Tokens of a window");
  visit("sample_packing", c.sample_packing, "Several documents share a window");
  visit("image_mean", c.image_mean, "Taken from pixels, which are 0 to 1; one number, or one a channel");
  visit("image_std", c.image_std, "What pixels are divided by then");
  visit("image_flip", c.image_flip, "Half of the images, drawn anew each time, are seen in a mirror");
  visit("image_crop", c.image_crop,
        "Images are moved by up to so many pixels each way, drawn anew each time");
  visit("micro_batch_size", c.micro_batch_size, "Windows or images that run together");
  visit("gradient_accumulation_steps", c.gradient_accumulation_steps, "Micro-batches of a step");
  visit("num_epochs", c.num_epochs, "Passes over the data");
  visit("max_steps", c.max_steps, "Steps in all; 0: by num_epochs");
  visit("optimizer", c.optimizer, optimizer_names());
  visit("learning_rate", c.learning_rate, "The highest rate");
  visit("lr_scheduler", c.lr_scheduler, "cosine, linear or constant");
  visit("warmup_steps", c.warmup_steps, "Steps in which the rate rises");
  visit("warmup_ratio", c.warmup_ratio, "The same as part of all steps");
  visit("cosine_min_lr_ratio", c.cosine_min_lr_ratio, "What the rate ends at, as part of the highest");
  visit("weight_decay", c.weight_decay, "Of matrices");
  visit("decay_vectors", c.decay_vectors, "Norms and biases decay too");
  visit("adam_beta1", c.adam_beta1, "");
  visit("adam_beta2", c.adam_beta2, "");
  visit("adam_epsilon", c.adam_epsilon, "");
  visit("bf16_moments", c.bf16_moments, "Moments of adam and adamw as bf16: half their memory");
  visit("momentum", c.momentum, "Of sgd");
  visit("nesterov", c.nesterov, "Of sgd with momentum");
  visit("max_grad_norm", c.max_grad_norm, "Gradients are scaled down to this norm; 0: never");
  visit("dropout", c.dropout, "Part of the values that are zeroed while learning");
  visit("seed", c.seed, "Of weights, order and dropout");
  visit("gradient_checkpointing", c.gradient_checkpointing, "Compute values again instead of keeping them");
  visit("update_in_backward", c.update_in_backward, "Change weights as soon as their gradient is complete");
  visit("wire_mode", c.wire_mode,
        "How gradients go between machines: exact, bf16, int8, local-steps, local-steps-int4; auto: exact, "
        "with a forecast of all");
  visit("local_steps", c.local_steps, "With local-steps: steps of each slot between two exchanges");
  visit("outer_learning_rate", c.outer_learning_rate, "With local-steps: of the mean change of all slots");
  visit("outer_momentum", c.outer_momentum, "With local-steps: Nesterov momentum of that");
  visit(
      "merge_quorum", c.merge_quorum,
      "With local-steps: once this part of the nodes is done, the others end with what they have; 1: never");
  visit("merge_grace", c.merge_grace, "With merge_quorum: seconds between the two");
  visit("wire_slots", c.wire_slots,
        "Parts of a step that other modes than exact code by themselves; 0: one a node");
  visit("wire_compress", c.wire_compress,
        "Lossless compression between machines: off, auto, lz4, lz4-frame or zstd");
  visit("wire_compress_min_bytes", c.wire_compress_min_bytes, "Smaller messages are not compressed");
  visit("wire_bucket_bytes", c.wire_bucket_bytes,
        "Gradients go between machines in buckets of so many bytes, while the backward pass goes on");
  visit("wire_socket_bytes", c.wire_socket_bytes,
        "Buffers of the sockets between machines, each way; 0: as the system finds them");
  visit("pipeline_stages", c.pipeline_stages,
        "Cut the layers over so many nodes, for what fits no single one; 0: every node has all layers");
  visit("output_dir", c.output_dir, "Where checkpoints, metrics, plot and model go");
  visit("logging_steps", c.logging_steps, "Steps between lines of metrics.jsonl");
  visit("eval_steps", c.eval_steps, "Steps between validations; 0: at the end only");
  visit("save_steps", c.save_steps, "Steps between checkpoints; 0: at the end only");
  visit("save_total_limit", c.save_total_limit, "Checkpoints kept, besides the best");
  visit("resume_from_checkpoint", c.resume_from_checkpoint,
        "Go on from the checkpoint of the best validation (best) or a named one, not the newest");
  visit("load_best_model_at_end", c.load_best_model_at_end,
        "Write the weights of the best validation instead of the last");
  visit("early_stopping_patience", c.early_stopping_patience,
        "Validations in a row without a better one that end the run; 0: none do");
  visit("export_type", c.export_type, "Types of the GGUF file: F32, F16, Q8_0 ...");
  visit("workers", c.workers, "Micro-batches that run at once");
  visit("threads", c.threads, "Threads of each worker; 0: all CPUs shared out");
  visit("dataloader_num_workers", c.dataloader_num_workers, "Threads that make batches ahead; 0: none");
  visit("dataloader_prefetch_factor", c.dataloader_prefetch_factor, "Batches ready at most");
}

// Reads a file into `config`; keys that are not there keep their values. Paths in it are taken from the
// file's folder. Throws Error that names file, line and key: unknown keys, values of the wrong kind, broken
// YAML. Returns the keys of other programs that say nothing here.
std::vector<std::string> read_config_file(const std::filesystem::path& path, TrainConfig& config);
// One key, as from a flag: lists with commas between their parts. Keys may have the names that other programs
// give them (num_train_epochs).
void set_config_value(TrainConfig& config, std::string_view key, const std::string& value);
// Our name of a key that may be another program's.
std::string_view own_key(std::string_view typed);
// Keys of other programs that decide nothing here (bf16, flash_attention, wandb_project ...): files may have
// them.
bool says_nothing_here(std::string_view key);
// The parts of such a list; a comma that belongs to one is written "\\,". And back.
std::vector<std::string> list_of_text(std::string_view text);
std::string text_of_list(std::span<const std::string> parts);
// Values that are files; in a config file they are relative to it.
bool is_path(std::string_view key);
// "key: value" lines, sorted as above: what decides the result. For checkpoints and reports.
std::string config_text(const TrainConfig& config);
// What config_text() wrote, of a config without templates of several lines. Throws Error naming the line.
TrainConfig config_of_text(std::string_view text);
// Throws Error kInvalidArgument naming the key for values that cannot be.
void check_config(const TrainConfig& config);

OptimizerOptions optimizer_options(const TrainConfig& config);

}  // namespace butterfly::train
