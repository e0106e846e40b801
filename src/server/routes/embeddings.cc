// POST /v1/embeddings and Ollama's /api/embed.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "server/generation/pieces.h"
#include "server/generation/read_request.h"
#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

constexpr size_t kInputsMax = 2048;

class EmbeddingAnswer final : public Answer {
 public:
  EmbeddingAnswer(ExchangePtr exchange, Generation generation, ErrorShape shape, bool base64,
                  size_t dimensions, bool single = false)
      : Answer(std::move(exchange), std::move(generation), shape),
        base64_(base64),
        dimensions_(dimensions),
        single_(single) {}

 private:
  void on_complete() override {
    if (single_) return respond_json(exchange(), to_text({{"embedding", vector_of(choices()[0])}}));
    if (shape() == ErrorShape::kOllama) return respond_json(exchange(), to_text(ollama()));
    Json data = Json::array();
    for (const Choice& choice : choices())
      data.push_back({{"object", "embedding"}, {"index", choice.index}, {"embedding", vector_of(choice)}});
    const size_t tokens = usage().prompt_tokens;
    respond_json(exchange(), to_text({{"object", "list"},
                                      {"data", std::move(data)},
                                      {"model", model().name()},
                                      {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}}));
  }

  Json ollama() {
    Json list = Json::array();
    Duration longest{};
    for (const Choice& choice : choices()) {
      list.push_back(vector_of(choice));
      longest = std::max(longest, choice.finish.timings.total);
    }
    return {{"model", model().name()},
            {"embeddings", std::move(list)},
            {"total_duration", longest.count()},
            {"load_duration", 0},
            {"prompt_eval_count", usage().prompt_tokens}};
  }

  Json vector_of(const Choice& choice) const {
    return embedding_json(shortened(choice.finish.embedding, dimensions_), base64_);
  }

  const bool base64_;
  const size_t dimensions_;
  const bool single_;  // Ollama's old form: one text, one vector
};

size_t dimensions_of(const Fields& fields, const Generation& generation) {
  const auto wanted = fields.maybe_integer("dimensions");
  const size_t dim = generation.model->loaded().config.dim;
  if (wanted && static_cast<size_t>(*wanted) > dim)
    bad_field("dimensions", fmt::format("{} of them, the model has {}", *wanted, dim));
  return wanted ? static_cast<size_t>(*wanted) : 0;
}

}  // namespace

void embeddings(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kEmbeddingFields);
  const std::string format = fields.string("encoding_format");
  if (format != "float" && format != "base64") bad_field("encoding_format", "expected float or base64");
  Generation generation = new_generation(context, *exchange, fields.string("model"));
  generation.request.kind = runtime::RequestKind::kEmbed;
  generation.prompts =
      read_prompts(*fields.find("input"), "input", kInputsMax, generation.model->tokenizer());
  const size_t dimensions = dimensions_of(fields, generation);
  std::make_shared<EmbeddingAnswer>(std::move(exchange), std::move(generation), ErrorShape::kOpenAi,
                                    format == "base64", dimensions)
      ->start();
}

void ollama_embed(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kOllamaEmbedFields);
  Generation generation = new_generation(context, *exchange, fields.string("model"));
  generation.request.kind = runtime::RequestKind::kEmbed;
  const Json input = fields.strings("input");
  if (!input.empty())
    generation.prompts = read_prompts(input, "input", kInputsMax, generation.model->tokenizer());
  if (generation.prompts.empty())
    return respond_json(*exchange,
                        to_text({{"model", generation.model->name()}, {"embeddings", Json::array()}}));
  const size_t dimensions = dimensions_of(fields, generation);
  std::make_shared<EmbeddingAnswer>(std::move(exchange), std::move(generation), ErrorShape::kOllama, false,
                                    dimensions)
      ->start();
}

void ollama_embeddings(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kOllamaEmbeddingFields);
  Generation generation = new_generation(context, *exchange, fields.string("model"));
  generation.request.kind = runtime::RequestKind::kEmbed;
  generation.prompts = read_prompts(*fields.find("prompt"), "prompt", 1, generation.model->tokenizer());
  std::make_shared<EmbeddingAnswer>(std::move(exchange), std::move(generation), ErrorShape::kOllama, false, 0,
                                    true)
      ->start();
}

}  // namespace butterfly::server
