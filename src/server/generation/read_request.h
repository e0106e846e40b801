// From the fields of a request to what a model is asked: sampling, rules, tools, prompts.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "server/api/fields.h"
#include "server/generation/answer.h"

namespace butterfly::server {

// Of fields that share kSampling's rows.
void read_sampling(const Fields& fields, Generation& generation);
// Ollama's "options"; null: defaults. Returns the grammar among them, or "".
std::string read_ollama_options(const Json* options, Generation& generation);

// {"123": -100}: ids to biases. -100 forbids, 100 is as good as forcing.
void read_logit_bias(const Json& json, const std::string& place, Generation& generation);

// "response_format" of chat, or "format" of responses: text, json_object, json_schema. Null: any text.
std::optional<model::GrammarSpec> read_response_format(const Json* format, const std::string& place);
// "format" of Ollama: "json" or a schema.
std::optional<model::GrammarSpec> read_ollama_format(const Json* format);

struct ToolRequest {
  const Json* tools = nullptr;         // what the template sees; null: none
  bool forced = false;                 // the answer has to be a call
  std::vector<model::ToolSpec> specs;  // those that may be called
  bool parallel = true;
};
// "tools" and "tool_choice". Throws ApiError for tools that are no functions, and a choice of one that is not
// there.
ToolRequest read_tools(const Json* tools, const Json* choice, bool parallel);

// Gives the generation its rules: at most one of grammar text, format and forced tools. Compiles them.
void set_rules(const std::string& gbnf, std::optional<model::GrammarSpec> format, const ToolRequest& tools,
               Generation& generation);

// The conversation in tokens of the generation's model. Throws ApiError 400: naming the field that is wrong,
// or with the template's own words when it refuses.
std::vector<int32_t> chat_prompt(const Generation& generation, const model::ChatRequest& conversation);

// A string, ids, or an array of either, as "prompt" and "input" have them. Ids are checked against the
// vocabulary.
std::vector<std::vector<int32_t>> read_prompts(const Json& json, const std::string& place, size_t count_max,
                                               const model::Tokenizer& tokenizer);

}  // namespace butterfly::server
