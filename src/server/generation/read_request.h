// From the fields of a request to what a model is asked: sampling, rules, tools, prompts.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "server/api/fields.h"
#include "server/generation/answer.h"
#include "server/generation/read_rules.h"

namespace butterfly::server {

// Of fields that share kSampling's rows.
void read_sampling(const Fields& fields, Generation& generation);
// Texts before which the answer ends, besides those of sampling.
void add_stops(const std::vector<std::string>& stops, const std::string& place, Generation& generation);
// Ollama's "options"; null: defaults. Returns the grammar among them, or "".
std::string read_ollama_options(const Json* options, Generation& generation);

// {"123": -100}: ids to biases. -100 forbids, 100 is as good as forcing.
void read_logit_bias(const Json& json, const std::string& place, Generation& generation);

struct ToolRequest {
  const Json* tools = nullptr;         // what the template sees; null: none
  bool forced = false;                 // the answer has to be a call
  std::vector<model::ToolSpec> specs;  // those that may be called
  bool parallel = true;
  bool strict = false;  // some of them must be held to its schema: refused where that cannot be done
  std::string strict_place;
};
// "tools" and "tool_choice". Throws ApiError for tools that are no functions, and a choice of one that is not
// there.
ToolRequest read_tools(const Json* tools, const Json* choice, bool parallel);

// Gives the generation its rules, compiled: the text's, or those of calls. Throws ApiError when a forced call
// would have to keep to a grammar.
void set_rules(std::optional<Rules> rules, const ToolRequest& tools, Generation& generation);

// What becomes of a model's reasoning.
struct ReasoningRequest {
  bool split = true;                 // apart from the answer; false: it stays in the text
  std::optional<size_t> tokens_max;  // then it has to close
};
// "reasoning_effort", "reasoning_format" and "reasoning_budget"; what is for the template goes into `extra`.
ReasoningRequest read_reasoning(const Fields& fields, Json& extra);
// The conversation as the model's template writes it; on a thread for short requests, only if that is quickly
// done (else HeavyWork).
model::RenderedChat render_chat(const model::ChatPrompter& prompter, model::ChatRequest conversation);

// Gives the generation the conversation in tokens of its model, and the form its answer is read by. After
// set_rules(). Throws ApiError 400: naming the field that is wrong, or with the template's own words when it
// refuses.
void set_chat_prompt(const model::ChatRequest& conversation, const ReasoningRequest& reasoning,
                     Generation& generation);

// A string, ids, or an array of either, as "prompt" and "input" have them. Ids are checked against the
// vocabulary. `parse_special`: control tokens that are spelled in strings become their ids.
std::vector<std::vector<int32_t>> read_prompts(const Json& json, const std::string& place, size_t count_max,
                                               const model::Tokenizer& tokenizer, bool parse_special = false);

}  // namespace butterfly::server
