// POST /tokenize and /detokenize, as llama.cpp and vLLM have them.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "server/api/fields.h"
#include "server/routes/routes.h"

namespace butterfly::server {

void tokenize(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kTokenizeFields);
  if (!fields.has("content") && !fields.has("prompt"))
    bad_field("content", "is missing", "missing_required_parameter");
  const ModelPtr model = context.models->ready(fields.string("model"), owner_of(context, *exchange));
  model::EncodeOptions options;
  options.parse_special = fields.boolean("parse_special");
  if (!fields.boolean("add_special")) options.add_bos = options.add_eos = false;
  const auto ids =
      model->tokenizer().encode(fields.string(fields.has("content") ? "content" : "prompt"), options);
  // As text, token by token: a value for each would take a hundred times what they are.
  const bool pieces = fields.boolean("with_pieces");
  std::string tokens;
  for (const int32_t id : ids) {
    const std::string_view comma = tokens.empty() ? "" : ",";
    if (pieces) {
      tokens += fmt::format(R"({}{{"id":{},"piece":{}}})", comma, id, to_text(model->tokenizer().piece(id)));
    } else {
      tokens += fmt::format("{}{}", comma, id);
    }
  }
  respond_json(*exchange, fmt::format(R"({{"tokens":[{}],"count":{},"max_model_len":{}}})", tokens,
                                      ids.size(), model->engine().context()));
}

void detokenize(ServerContext& context, ExchangePtr exchange) {
  const Json body = body_of(*exchange);
  const Fields fields(body, kDetokenizeFields);
  const ModelPtr model = context.models->ready(fields.string("model"), owner_of(context, *exchange));
  const auto vocab = static_cast<int64_t>(model->tokenizer().vocab_size());
  std::vector<int32_t> ids;
  for (const Json& id : *fields.find("tokens")) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= vocab)
      bad_field("tokens", fmt::format("expected token ids from 0 to {}", vocab - 1));
    ids.push_back(id.get<int32_t>());
  }
  const std::string text = model->tokenizer().decode(ids);
  respond_json(*exchange, to_text({{"content", text}, {"prompt", text}}));
}

}  // namespace butterfly::server
