// `butterfly train-tokenizer` and `butterfly make-corpus`: what a model needs before it can be trained.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/json_text.h"
#include "base/units.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/flags.h"
#include "cli/console/interrupt.h"
#include "model/formats/gguf_writer.h"
#include "train/corpus/corpus.h"
#include "train/tokenizer/tokenizer_json.h"
#include "train/tokenizer/tokenizer_trainer.h"

namespace butterfly::cli {
namespace {

struct TokenizerOptions {
  std::string out;
  std::vector<std::string> files;
  uint64_t vocabulary = 1024;
  std::string pre = "gpt-2";
  std::vector<std::string> special = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  std::string bos, eos = "<|endoftext|>";
};

// The texts of one line of a .jsonl file, whatever they are called.
void add_strings(const nlohmann::json& json, train::BpeTrainer& trainer) {
  if (json.is_string()) trainer.add_text(json.get_ref<const std::string&>());
  if (json.is_structured())
    for (const auto& item : json.items())
      if (item.key() != "role" && item.key() != "kind") add_strings(item.value(), trainer);
}

void add_file(const std::string& path, train::BpeTrainer& trainer) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(Errc::kNotFound, "{}: cannot be opened", path);
  if (!path.ends_with(".jsonl")) {
    std::ostringstream text;
    text << in.rdbuf();
    trainer.add_text(text.str());
    return;
  }
  size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    throw_if_interrupted();
    ++number;
    const auto json = json_of_text_or_none<nlohmann::json>(line);
    if (json.is_discarded()) fail(Errc::kCorrupt, "{}:{}: is no JSON", path, number);
    add_strings(json, trainer);
  }
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) fail(Errc::kIo, "{}: cannot be written", path.string());
}

int train_tokenizer(const TokenizerOptions& options) {
  train::BpeTrainer trainer(
      {.vocabulary = options.vocabulary, .special = options.special, .pre_tokenizer = options.pre});
  for (const std::string& file : options.files) add_file(file, trainer);
  const train::BpeVocabulary vocabulary = trainer.train();
  const train::SpecialRoles roles{.bos = options.bos, .eos = options.eos, .padding = options.eos};
  const std::filesystem::path out = options.out;
  if (out.extension() == ".json") {
    write_text(out, train::tokenizer_json(vocabulary, roles));
    // Hugging Face's library looks for these two names.
    if (out.filename() == "tokenizer.json")
      write_text(out.parent_path() / "tokenizer_config.json", train::tokenizer_config_json(roles));
  } else {
    model::Metadata metadata;
    metadata.set("general.architecture", std::string("llama"));
    metadata.set("general.name", std::string("tokenizer"));
    train::add_tokenizer_metadata(vocabulary, roles, metadata);
    model::GgufWriter(std::move(metadata)).write(out);
  }
  fmt::print(stderr, "{}: {} tokens, {} merges learned from {} distinct words\n", options.out,
             vocabulary.size(), vocabulary.merges.size(), trainer.word_count());
  return kExitOk;
}

struct CorpusCommand {
  std::string folder;
  train::CorpusOptions options;
};

int make_corpus(const CorpusCommand& command) {
  const train::CorpusReport report = train::write_corpus(command.folder, command.options);
  fmt::print(stderr, "{}: {} items to train on ({}), {} for validation, {} questions\n", command.folder,
             report.items, format_bytes(report.bytes), report.valid_items, report.question_items);
  return kExitOk;
}

}  // namespace

CommandBody setup_train_tokenizer(CLI::App& app) {
  auto options = std::make_shared<TokenizerOptions>();
  add_option(app, "-o,--out", options->out, "The file to write: a GGUF without tensors, or a tokenizer.json")
      .type_name("FILE")
      .required();
  add_option(app, "FILES", options->files, "Texts (.txt), or lines of JSON whose strings are texts (.jsonl)")
      .type_name("FILE")
      .required();
  add_option(app, "--vocab", options->vocabulary, "Tokens in all").type_name("N").show_default();
  add_option(app, "--pre", options->pre, "How texts are cut into words: gpt-2, llama-bpe, qwen2 ...")
      .type_name("NAME")
      .show_default();
  add_option(app, "--special", options->special, "Special tokens, in order")
      .type_name("TOKEN")
      .show_default();
  add_option(app, "--bos", options->bos, "Which of them begins a text (default: none)").type_name("TOKEN");
  add_option(app, "--eos", options->eos, "Which of them ends a text").type_name("TOKEN").show_default();
  return [options] { return train_tokenizer(*options); };
}

CommandBody setup_make_corpus(CLI::App& app) {
  auto command = std::make_shared<CorpusCommand>();
  add_option(app, "FOLDER", command->folder, "Where train.jsonl, valid.jsonl and questions.jsonl go")
      .required();
  add_option(app, "-s,--seed", command->options.seed, "Same flags, same bytes").type_name("N").show_default();
  add_option(app, "--stories", command->options.story_percent, "Stories among them; the rest are questions")
      .type_name("PERCENT")
      .show_default();
  add_option(app, "--turns", command->options.turns_max, "Questions of one conversation, at most")
      .range(1, 1000)
      .show_default();
  add_option(app, "--items", command->options.items, "Items to train on").type_name("N").show_default();
  add_option(app, "--valid", command->options.valid_items, "Items for validation")
      .type_name("N")
      .show_default();
  add_option(app, "--questions", command->options.question_items, "Held-out questions")
      .type_name("N")
      .show_default();
  return [command] { return make_corpus(*command); };
}

}  // namespace butterfly::cli
