// Language models on this machine: load a file, generate texts, answer conversations.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace butterfly {

struct ModelOptions {
  size_t threads = 0;  // 0: all CPUs
  size_t context = 0;  // positions of prompt and answer together; 0: the model's, up to 4096
  std::vector<std::string> adapters = {};  // LoRA: "file.gguf", or "file.gguf:0.5" with a scale
};

// Names and defaults are llama.cpp's. The text depends on these, the model file and the prompt alone.
struct GenerateOptions {
  size_t tokens_max = 256;
  float temperature = 0.8f;  // 0: always the likeliest token
  int top_k = 40;            // 0: off
  float top_p = 0.95f;       // 1: off
  float min_p = 0.05f;       // 0: off
  uint64_t seed = 0;
  std::vector<std::string> stops = {};  // the text ends before one of these
};

struct Answer {
  std::string text;
  std::string finish;  // why it ended: "stop", "length", ...
  size_t prompt_tokens = 0;
  size_t tokens = 0;  // generated
  double first_token_s = 0;
  double total_s = 0;
};

struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// Called with whole characters as they become certain, on the thread that asked; false ends the text.
using OnText = std::function<bool(const std::string& piece)>;

// One model in memory, and the threads that compute it. Calls may come from several threads: they are served
// together, and each gets the text that it would get alone. Movable.
class Model {
 public:
  // A GGUF file, a Hugging Face folder or a llama2.c file. Throws std::runtime_error that names the file,
  // the place, the expected and the found.
  static Model load(const std::string& path, const ModelOptions& options = {});
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  std::string architecture() const;  // "llama"
  size_t layers() const;
  size_t context() const;

  std::vector<int32_t> tokenize(const std::string& text) const;
  std::string detokenize(const std::vector<int32_t>& tokens) const;

  // Goes on with the text. Blocks until it is over; `on_text` has the pieces as they come.
  Answer generate(const std::string& prompt, const GenerateOptions& options = {}, const OnText& on_text = {});
  // The answer to a conversation, by the model's own chat template.
  Answer chat(const std::vector<Message>& messages, const GenerateOptions& options = {},
              const OnText& on_text = {});

 private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace butterfly
