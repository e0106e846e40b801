// Which rules a request gives its text: schemas, grammars, expressions, under the names that clients have for
// them.
#pragma once
#include <optional>
#include <string>

#include "model/grammar/structured_output.h"
#include "server/api/fields.h"

namespace butterfly::server {

// What a text must keep to, and the field that said so.
struct Rules {
  model::GrammarSpec spec;
  std::string place;
};
// The one rule among the fields of sampling and `format`: "response_format" of chat, or "text.format" of
// responses (text, json_object, json_schema); null: none. Throws ApiError when there are two.
std::optional<Rules> read_rules(const Fields& fields, const Json* format, const std::string& format_place);
// Ollama's "format" ("json" or a schema) and our "grammar" among its options.
std::optional<Rules> read_ollama_rules(const Json* format, const std::string& grammar);

}  // namespace butterfly::server
