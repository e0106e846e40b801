// For tests: runs that take a moment, with their data. A transformer on texts, and an image network on digits
// in the corners of pictures.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/file_text.h"
#include "base/testing/temp_dir.h"
#include "model/formats/gguf_writer.h"
#include "train/corpus/corpus.h"
#include "train/task/config.h"
#include "train/tokenizer/tokenizer_trainer.h"

namespace butterfly::train::testing {

// corpus/ and tokenizer.gguf, if they are not there yet.
inline void write_tiny_texts(const butterfly::testing::TempDir& dir) {
  if (std::filesystem::exists(dir / "tokenizer.gguf")) return;
  write_corpus(dir / "corpus", {.seed = 1, .items = 300, .valid_items = 20, .question_items = 5});
  BpeTrainer trainer({.vocabulary = 300, .special = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}});
  trainer.add_text(read_text_file(dir / "corpus/train.jsonl"));
  model::Metadata metadata;
  metadata.set("general.architecture", std::string("llama"));
  add_tokenizer_metadata(trainer.train(), {.bos = "", .eos = "<|endoftext|>", .padding = ""}, metadata);
  model::GgufWriter(std::move(metadata)).write(dir / "tokenizer.gguf");
}

// Of what write_tiny_texts() wrote; micro-batches and steps are the test's choice.
inline TrainConfig tiny_text_config(const butterfly::testing::TempDir& dir, const std::string& out) {
  TrainConfig c;
  c.tokenizer = (dir / "tokenizer.gguf").string();
  c.datasets = {(dir / "corpus/train.jsonl").string()};
  c.model.hidden_size = 32;
  c.model.intermediate_size = 64;
  c.model.num_hidden_layers = 2;
  c.model.num_attention_heads = 2;
  c.model.max_position_embeddings = 64;
  c.sequence_len = 32;
  c.micro_batch_size = 2;
  c.learning_rate = 1e-2;
  c.dropout = 0.1;
  c.threads = 1;
  c.output_dir = (dir / out).string();
  return c;
}

// What an IDX file of bytes begins with.
inline std::string idx_header(std::initializer_list<uint32_t> dims) {
  std::string text = {0, 0, 8, static_cast<char>(dims.size())};
  for (const uint32_t dim : dims)
    for (const int shift : {24, 16, 8, 0}) text += static_cast<char>(dim >> shift);
  return text;
}

// some-images-idx3-ubyte and its labels: 200 pictures of 4 x 4, of which one corner is bright.
inline void write_corner_images(const butterfly::testing::TempDir& dir) {
  std::string images = idx_header({200, 4, 4}), labels = idx_header({200});
  for (uint32_t i = 0; i < 200; ++i) {
    labels += static_cast<char>(i % 4);
    for (uint32_t p = 0; p < 16; ++p)
      images += static_cast<char>((p / 8 * 2 + p % 4 / 2 == i % 4 ? 200 : 20) + (i * 7 + p * 13) % 50);
  }
  dir.write("some-images-idx3-ubyte", images);
  dir.write("some-labels-idx1-ubyte", labels);
}

}  // namespace butterfly::train::testing
