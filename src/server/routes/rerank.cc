// POST /rerank, /v1/rerank: texts in the order in which they answer a question.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "server/generation/pieces.h"
#include "server/generation/read_request.h"
#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

constexpr size_t kDocumentsMax = 1024;
constexpr size_t kTopLogprobs = 20;

enum class Method {
  kEmbedding,  // how near the vectors of question and text are: any model, one made for embeddings at best
  kYesNo,      // a model made for it is asked whether the text answers the question
};

// What rerankers of this kind (Qwen3-Reranker) were trained on.
constexpr const char* kJudge =
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note "
    "that "
    "the answer can only be \"yes\" or \"no\".";
constexpr const char* kInstruct =
    "Given a web search query, retrieve relevant passages that answer the query";

double similarity(const std::vector<float>& a, const std::vector<float>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);  // of length 1 both
}

// p(yes) / (p(yes) + p(no)) for the first token of the answer. A word that is not among the likeliest counts
// as the last of them.
double yes_share(const model::Tokenizer& tokenizer, const Choice& choice) {
  if (choice.tokens.empty()) return 0;
  double yes = -INFINITY, no = -INFINITY, least = 0;
  for (const runtime::TokenLogprob& candidate : choice.tokens.front().top) {
    std::string text(tokenizer.piece(candidate.token));
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    text.erase(0, text.find_first_not_of(' '));
    if (text == "yes") yes = std::max(yes, static_cast<double>(candidate.logprob));
    if (text == "no") no = std::max(no, static_cast<double>(candidate.logprob));
    least = std::min(least, static_cast<double>(candidate.logprob));
  }
  yes = std::max(yes, least);
  no = std::max(no, least);
  return 1 / (1 + std::exp(no - yes));
}

struct RerankForm {
  Method method = Method::kEmbedding;
  size_t top = 0;             // results; 0: all
  bool return_texts = false;  // with the texts themselves
  bool tei = false;           // a plain array, as text-embeddings-inference answers
  std::vector<std::string> texts;
};

class RerankAnswer final : public Answer {
 public:
  RerankAnswer(ExchangePtr exchange, Generation generation, RerankForm form)
      : Answer(std::move(exchange), std::move(generation), ErrorShape::kOpenAi), form_(std::move(form)) {}

 private:
  void on_complete() override {
    std::vector<double> scores(form_.texts.size());
    for (size_t i = 0; i < scores.size(); ++i)
      scores[i] = form_.method == Method::kEmbedding
                      ? similarity(choices().front().finish.embedding, choices()[i + 1].finish.embedding)
                      : yes_share(model().tokenizer(), choices()[i]);
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    if (form_.top > 0) order.resize(std::min(order.size(), form_.top));
    Json results = Json::array();
    for (const size_t i : order) {
      Json row = {{"index", i}, {form_.tei ? "score" : "relevance_score", scores[i]}};
      if (form_.return_texts && form_.tei) row["text"] = form_.texts[i];
      if (form_.return_texts && !form_.tei) row["document"] = {{"text", form_.texts[i]}};
      results.push_back(std::move(row));
    }
    if (form_.tei) return respond_json(exchange(), to_text(results));
    const size_t tokens = usage().prompt_tokens;
    respond_json(exchange(), to_text({{"object", "list"},
                                      {"model", model().name()},
                                      {"method", form_.method == Method::kEmbedding ? "embedding" : "yes_no"},
                                      {"results", std::move(results)},
                                      {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}}));
  }

  const RerankForm form_;
};

// Strings, or objects with "text".
std::vector<std::string> read_texts(const Json& list, const std::string& place) {
  std::vector<std::string> texts;
  if (!list.is_array() || list.empty() || list.size() > kDocumentsMax)
    bad_field(place, fmt::format("expected 1 to {} texts", kDocumentsMax));
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& item = list[i];
    const Json text = item.is_object() ? item.value("text", Json()) : item;
    if (!text.is_string()) bad_field(fmt::format("{}[{}]", place, i), "expected a string, or `text`");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

Method method_of(const std::string& word, const std::string& model) {
  std::string name = model;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (word == "auto") return name.find("rerank") != name.npos ? Method::kYesNo : Method::kEmbedding;
  if (word == "embedding") return Method::kEmbedding;
  if (word != "yes_no")
    bad_field("method", fmt::format("'{:.20}': expected auto, embedding or yes_no", word));
  return Method::kYesNo;
}

void ask_yes_no(const std::string& query, const std::string& instruct, const std::vector<std::string>& texts,
                Generation& generation) {
  generation.request.tokens_max = 1;
  generation.request.ignore_eos = true;
  generation.request.sampling.temperature = 0;
  generation.request.logprobs = true;
  generation.request.top_logprobs = kTopLogprobs;
  const Json extra = {{"enable_thinking", false}};
  for (const std::string& text : texts) {
    const Json messages = Json::array(
        {{{"role", "system"}, {"content", kJudge}},
         {{"role", "user"},
          {"content", fmt::format("<Instruct>: {}\n<Query>: {}\n<Document>: {}", instruct, query, text)}}});
    model::ChatRequest conversation;
    conversation.messages = &messages;
    conversation.extra = &extra;
    set_chat_prompt(conversation, {}, generation);
  }
  generation.output = {};
}

}  // namespace

void rerank(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kRerankFields);
  RerankForm form;
  form.tei = fields.has("texts");
  if (form.tei == fields.has("documents"))
    bad_field("documents", "expected the texts under documents (or texts, for TEI's form), once");
  const char* place = form.tei ? "texts" : "documents";
  form.texts = read_texts(*fields.find(place), place);
  form.top = static_cast<size_t>(fields.integer("top_n"));
  form.return_texts = fields.boolean("return_documents") || fields.boolean("return_text");
  Generation generation = new_generation(context, *exchange, fields.string("model"));
  form.method = method_of(fields.string("method"), generation.model->name());
  const std::string query = fields.string("query");
  if (form.method == Method::kYesNo) {
    const std::string instruct = fields.string("instruct");
    ask_yes_no(query, instruct.empty() ? kInstruct : instruct, form.texts, generation);
  } else {
    generation.request.kind = runtime::RequestKind::kEmbed;
    const model::Tokenizer& tokenizer = generation.model->tokenizer();
    generation.prompts = read_prompts(Json(query), "query", 1, tokenizer);
    auto texts = read_prompts(Json(form.texts), place, kDocumentsMax, tokenizer);
    std::move(texts.begin(), texts.end(), std::back_inserter(generation.prompts));
  }
  std::make_shared<RerankAnswer>(std::move(exchange), std::move(generation), std::move(form))->start();
}

}  // namespace butterfly::server
