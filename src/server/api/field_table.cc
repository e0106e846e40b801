#include "server/api/fields.h"

namespace butterfly::server {
namespace {

using enum FieldType;
constexpr double kText = 8 << 20;  // a body is not longer
constexpr double kName = 256;
constexpr double kSeed = 9007199254740991.0;  // 2^53 - 1: what every JSON reader keeps

constexpr FieldRow kSampling[] = {
    {"max_tokens", kInteger, -1, 1 << 24, "-1", "tokens to generate; -1: until the text or the context ends"},
    {"max_completion_tokens", kInteger, -1, 1 << 24, "",
     "the same, by its new name; counts if both are there"},
    {"temperature", kNumber, 0, 2, "0.8", "0: the likeliest token always"},
    {"top_p", kNumber, 0, 1, "0.95", "only the likeliest tokens with this share"},
    {"top_k", kInteger, -1, 1 << 24, "40", "only so many likeliest; 0 or -1: all"},
    {"min_p", kNumber, 0, 1, "0.05", "only tokens with this share of the likeliest's probability"},
    {"seed", kInteger, -kSeed, kSeed, "",
     "the same seed gives the same text; absent or negative: a fresh one"},
    {"frequency_penalty", kNumber, -2, 2, "0", "subtracted per occurrence"},
    {"presence_penalty", kNumber, -2, 2, "0", "subtracted if it occurs"},
    {"repeat_penalty", kNumber, 0.01, 10, "1", "divides the logits of repeated tokens"},
    {"repeat_last_n", kInteger, -1, 1 << 24, "64", "tokens the penalties look back on; -1: all"},
    {"logit_bias", kObject, 0, 1024, "", "token id to -100 .. 100, added to its logit; -100 forbids"},
    {"stop", kStrings, 0, 16, "", "the text ends before these; each up to 256 bytes"},
    {"ignore_eos", kBoolean, 0, 0, "false", "go on past the end of the text"},
    {"n", kInteger, 1, 32, "1", "answers to the same prompt"},
    {"stream", kBoolean, 0, 0, "false", "the answer in pieces, as server-sent events"},
    {"stream_options", kObject, 0, 16, "", "`include_usage`: a last piece with the counts"},
    {"return_progress", kBoolean, 0, 0, "false",
     "with `stream`: pieces with `prompt_progress` while a long prompt is read (llama.cpp's name)"},
    {"grammar", kString, 0, 1 << 20, "", "GBNF: only texts of this grammar"},
    {"regex", kString, 0, 1 << 16, "",
     "only texts that match this expression (as `pattern` in JSON Schema) as a whole"},
    {"json_schema", kAny, 0, 0, "", "only JSON of this schema (llama.cpp's name)"},
    {"guided_json", kAny, 0, 0, "", "the same (vLLM's name), as object or as text"},
    {"guided_regex", kString, 0, 1 << 16, "", "the same as `regex`"},
    {"guided_grammar", kString, 0, 1 << 20, "", "the same as `grammar`"},
    {"guided_choice", kStrings, 1, 1000, "", "one of these texts"},
    {"structured_outputs", kObject, 0, 16, "",
     "vLLM's: one of `json`, `json_object`, `regex`, `choice`, `grammar`"},
    {"json_whitespace", kString, 0, 16, "\"none\"",
     "JSON under a schema: `none`, compact; `free`, white space and escapes anywhere"},
    {"user", kString, 0, 512, "", "accepted, not used"},
};

constexpr FieldRow kChat[] = {
    {"model", kString, 0, kName, "", "absent: the first of the server"},
    {"messages", kArray, 1, 10000, "required",
     "roles system, developer, user, assistant, tool; content as text or text parts"},
    {"logprobs", kBoolean, 0, 0, "false", "log probabilities of the chosen tokens"},
    {"top_logprobs", kInteger, 0, 20, "0", "and of so many likeliest"},
    {"response_format", kObject, 0, 16, "", "`text`, `json_object`, or `json_schema` with a schema"},
    {"tools", kArray, 0, 128, "", "functions the model may call"},
    {"tool_choice", kAny, 0, 0, "", "`auto`, `none`, `required`, or one function"},
    {"parallel_tool_calls", kBoolean, 0, 0, "true", "false: at most one call"},
    {"chat_template_kwargs", kObject, 0, 64, "", "more variables for the model's template"},
    {"reasoning_effort", kString, 0, 16, "",
     "handed to the template; `none`: it is asked not to reason (`enable_thinking` false)"},
    {"reasoning_format", kString, 0, 16, "\"auto\"",
     "`auto`: reasoning comes apart, in `reasoning_content`; `none`: it stays in the content"},
    {"reasoning_budget", kInteger, -1, 1 << 24, "-1",
     "tokens of reasoning, after which it has to close; 0: as reasoning_effort `none`; -1: no bound"},
    {"functions", kArray, 0, 128, "", "refused: `tools` took its place"},
    {"function_call", kAny, 0, 0, "", "refused: `tool_choice` took its place"},
};

constexpr FieldRow kCompletion[] = {
    {"model", kString, 0, kName, "", "absent: the first of the server"},
    {"prompt", kAny, 0, 0, "required", "a string, token ids, or an array of either; up to 64 prompts"},
    {"logprobs", kInteger, 0, 5, "", "log probabilities of the chosen and of so many likeliest tokens"},
    {"echo", kBoolean, 0, 0, "false", "the prompt in front of the answer"},
    {"parse_special", kBoolean, 0, 0, "false",
     "control tokens written in the prompt become their ids: for clients that apply a template themselves"},
    {"best_of", kInteger, 1, 1, "1", "only 1"},
    {"suffix", kString, 0, 0, "", "not supported: only the empty string"},
    {"response_format", kObject, 0, 16, "", "as for chat"},
};

constexpr FieldRow kEmbedding[] = {
    {"model", kString, 0, kName, "", "absent: the first of the server"},
    {"input", kAny, 0, 0, "required", "a string, token ids, or an array of either; up to 2048 inputs"},
    {"encoding_format", kString, 0, 16, "\"float\"", "`float`, or `base64`: little-endian 32-bit floats"},
    {"dimensions", kInteger, 1, 1 << 20, "", "keep only the first so many, of length 1 again"},
    {"user", kString, 0, 512, "", "accepted, not used"},
};

constexpr FieldRow kResponse[] = {
    {"model", kString, 0, kName, "", "absent: the first of the server"},
    {"input", kAny, 0, 0, "required",
     "a string, or items: messages with text parts, reasoning, calls (function_call, custom_tool_call, "
     "local_shell_call) and their outputs; those of OpenAI's own tools are left out; nothing: answered with "
     "nothing"},
    {"instructions", kString, 0, kText, "", "a system message in front"},
    {"max_output_tokens", kInteger, 1, 1 << 24, "", "tokens to generate"},
    {"text", kObject, 0, 16, "", "`format`: as response_format of chat"},
    {"tools", kArray, 0, 128, "",
     "functions, and namespaces of functions (at most 512 in all); tools of OpenAI's own servers are left "
     "out"},
    {"tool_choice", kAny, 0, 0, "", "as for chat"},
    {"parallel_tool_calls", kBoolean, 0, 0, "true", "false: at most one call"},
    {"previous_response_id", kString, 0, 512, "",
     "refused, with its own words: nothing is kept between requests"},
    {"conversation", kAny, 0, 0, "", "the same"},
    {"prompt", kAny, 0, 0, "", "the same"},
    {"background", kBoolean, 0, 0, "false", "refused: the answer comes on the connection that asked for it"},
    {"reasoning", kObject, 0, 16, "",
     "`effort`: handed to the template; `none` or `minimal`: it is asked not to reason"},
    {"store", kBoolean, 0, 0, "false", "accepted; nothing is kept"},
    {"top_logprobs", kInteger, 0, 20, "0",
     "log probabilities of the text's tokens, and of so many likeliest"},
    {"include", kStrings, 0, 16, "",
     "`message.output_text.logprobs`: log probabilities of the text's tokens; others are left out"},
    {"metadata", kObject, 0, 16, "", "given back as it came"},
    {"chat_template_kwargs", kObject, 0, 64, "", "more variables for the model's template"},
};

constexpr FieldRow kMessageCount[] = {
    {"model", kString, 0, kName, "", "absent: the first of the server"},
    {"messages", kArray, 1, 10000, "required",
     "roles user and assistant; blocks text, tool_use, tool_result, thinking, documents of text; a line "
     "stands for pictures in results"},
    {"system", kAny, 0, 0, "",
     "a string or blocks of text; the line for a biller that one client puts first is dropped"},
    {"tools", kArray, 0, 512, "", "with `input_schema`; tools of Anthropic's own servers are left out"},
    {"tool_choice", kObject, 0, 16, "", "`auto`, `any`, `tool`, `none`; `disable_parallel_tool_use`"},
    {"thinking", kObject, 0, 16, "",
     "`enabled` with `budget_tokens`, `adaptive`, `disabled`; absent: disabled"},
    {"chat_template_kwargs", kObject, 0, 64, "", "more variables for the model's template"},
};

constexpr FieldRow kMessage[] = {
    {"model", kString, 0, kName, "", "absent: the first of the server"},
    {"messages", kArray, 1, 10000, "required",
     "roles user and assistant; blocks text, tool_use, tool_result, thinking, documents of text; a line "
     "stands for pictures in results"},
    {"system", kAny, 0, 0, "",
     "a string or blocks of text; the line for a biller that one client puts first is dropped"},
    {"stop_sequences", kStrings, 0, 16, "", "the text ends before these"},
    {"tools", kArray, 0, 512, "", "with `input_schema`; tools of Anthropic's own servers are left out"},
    {"tool_choice", kObject, 0, 16, "", "`auto`, `any`, `tool`, `none`; `disable_parallel_tool_use`"},
    {"thinking", kObject, 0, 16, "",
     "`enabled` with `budget_tokens`, `adaptive`, `disabled`; absent: disabled"},
    {"output_format", kObject, 0, 16, "", "`json_schema` with a schema"},
    {"output_config", kObject, 0, 16, "", "`format`: the same"},
    {"metadata", kObject, 0, 16, "", "accepted, not used"},
    {"chat_template_kwargs", kObject, 0, 64, "", "more variables for the model's template"},
};

constexpr FieldRow kTemplate[] = {
    {"model", kString, 0, kName, "", "absent: the first of the server"},
    {"messages", kArray, 1, 10000, "required", "as for chat"},
    {"tools", kArray, 0, 128, "", "as for chat"},
    {"add_generation_prompt", kBoolean, 0, 0, "true", "with the beginning of the answer"},
    {"chat_template_kwargs", kObject, 0, 64, "", "more variables for the model's template"},
};

constexpr FieldRow kLlamaCompletion[] = {
    {"model", kString, 0, kName, "", "absent: the first of the server"},
    {"prompt", kAny, 0, 0, "required", "a string or token ids"},
    {"n_predict", kInteger, -1, 1 << 24, "", "tokens to generate; -1: until the text or the context ends"},
    {"parse_special", kBoolean, 0, 0, "true", "control tokens written in the prompt become their ids"},
    {"n_probs", kInteger, 0, 20, "0",
     "log probabilities of the tokens, and of so many likeliest, in `completion_probabilities`"},
    {"return_tokens", kBoolean, 0, 0, "false", "the ids of the tokens, too"},
    {"cache_prompt", kBoolean, 0, 0, "true", "accepted: it always is"},
};

constexpr FieldRow kInfill[] = {
    {"model", kString, 0, kName, "", "absent: the first of the server"},
    {"input_prefix", kString, 0, kText, "\"\"", "the text before"},
    {"input_suffix", kString, 0, kText, "\"\"", "the text behind"},
    {"prompt", kString, 0, kText, "\"\"", "what the middle begins with"},
    {"input_extra", kArray, 0, 1000, "", "other files: `text`"},
    {"n_predict", kInteger, -1, 1 << 24, "", "tokens to generate; -1: until the text or the context ends"},
    {"n_probs", kInteger, 0, 20, "0", "as for /completion"},
    {"return_tokens", kBoolean, 0, 0, "false", "as for /completion"},
};

constexpr FieldRow kRerank[] = {
    {"model", kString, 0, kName, "", "absent: the first of the server"},
    {"query", kString, 1, kText, "required", "the question"},
    {"documents", kArray, 0, 1024, "", "the texts: strings, or objects with `text`"},
    {"texts", kArray, 0, 1024, "", "the same under TEI's name, which is answered with a plain array"},
    {"top_n", kInteger, 0, 1024, "0", "only so many results; 0: all"},
    {"return_documents", kBoolean, 0, 0, "false", "with the texts"},
    {"return_text", kBoolean, 0, 0, "false", "the same, by TEI's name"},
    {"method", kString, 0, 16, "\"auto\"",
     "`embedding`: how near the vectors are; `yes_no`: the model is asked, as Qwen3-Reranker was trained; "
     "`auto`: yes_no where the model's name has rerank in it"},
    {"instruct", kString, 0, 4096, "", "yes_no: what is looked for, in words"},
};

constexpr FieldRow kOllamaName[] = {
    {"model", kString, 0, kName, "", "a name"},
    {"name", kString, 0, kName, "", "the same, by its old name"},
    {"stream", kBoolean, 0, 0, "true", "one JSON object per line"},
};

constexpr FieldRow kOllamaEmbedding[] = {
    {"model", kString, 0, kName, "", "absent: the first of the server"},
    {"prompt", kString, 0, kText, "required", "the text"},
    {"options", kObject, 0, 64, "", "accepted, not used"},
    {"keep_alive", kAny, 0, 0, "", "accepted, not used"},
};

constexpr FieldRow kTokenize[] = {
    {"model", kString, 0, kName, "", "absent: the first of the server"},
    {"content", kString, 0, kText, "", "the text (llama.cpp's name)"},
    {"prompt", kString, 0, kText, "", "the same (vLLM's name)"},
    {"add_special", kBoolean, 0, 0, "false", "with the tokens the model wants at the beginning"},
    {"parse_special", kBoolean, 0, 0, "true", "control tokens written in the text become their ids"},
    {"with_pieces", kBoolean, 0, 0, "false", "ids with their texts"},
};

constexpr FieldRow kDetokenize[] = {
    {"model", kString, 0, kName, "", "absent: the first of the server"},
    {"tokens", kArray, 0, 1 << 20, "required", "ids"},
};

constexpr FieldRow kOllamaChat[] = {
    {"model", kString, 0, kName, "", "absent: the first of the server"},
    {"messages", kArray, 0, 10000, "required", "as for chat; `images` are refused"},
    {"stream", kBoolean, 0, 0, "true", "one JSON object per line"},
    {"format", kAny, 0, 0, "", "`json`, or a JSON schema"},
    {"tools", kArray, 0, 128, "", "functions the model may call"},
    {"options", kObject, 0, 64, "", "sampling, under Ollama's names; see options"},
    {"keep_alive", kAny, 0, 0, "",
     "0 without messages: the model is unloaded if nobody uses it and no API key is asked for; else not "
     "used: "
     "models stay until memory is needed"},
    {"think", kAny, 0, 0, "",
     "handed to the template: true or false as enable_thinking, words (`low`) as reasoning_effort"},
};

constexpr FieldRow kOllamaGenerate[] = {
    {"model", kString, 0, kName, "", "absent: the first of the server"},
    {"prompt", kString, 0, kText, "\"\"", "put into the chat template as a user's message, unless raw"},
    {"system", kString, 0, kText, "", "a system message in front"},
    {"suffix", kString, 0, 0, "", "not supported: only the empty string"},
    {"template", kString, 0, 0, "",
     "not supported: only the empty string. Prompts are written by the model's own template, or as they are "
     "with `raw`"},
    {"context", kArray, 0, 0, "", "not supported: only an empty one; send the conversation to /api/chat"},
    {"images", kArray, 0, 0, "", "not supported: only none"},
    {"raw", kBoolean, 0, 0, "false", "the prompt as it is"},
    {"stream", kBoolean, 0, 0, "true", "one JSON object per line"},
    {"format", kAny, 0, 0, "", "`json`, or a JSON schema"},
    {"options", kObject, 0, 64, "", "sampling, under Ollama's names; see options"},
    {"keep_alive", kAny, 0, 0, "", "as for /api/chat, without a prompt"},
    {"think", kAny, 0, 0, "",
     "handed to the template: true or false as enable_thinking, words (`low`) as reasoning_effort"},
};

constexpr FieldRow kOllamaEmbed[] = {
    {"model", kString, 0, kName, "", "absent: the first of the server"},
    {"input", kStrings, 0, 2048, "required", "texts"},
    {"dimensions", kInteger, 1, 1 << 20, "", "keep only the first so many, of length 1 again"},
    {"truncate", kBoolean, 0, 0, "false", "accepted; texts are never cut"},
    {"options", kObject, 0, 64, "", "accepted, not used"},
    {"keep_alive", kAny, 0, 0, "", "accepted, not used"},
};

constexpr FieldRow kOllamaShow[] = {
    {"model", kString, 0, kName, "", "absent: the first of the server"},
    {"name", kString, 0, kName, "", "the same, by its old name"},
    {"verbose", kBoolean, 0, 0, "false", "accepted, not used"},
};

constexpr FieldRow kOllamaOption[] = {
    {"num_predict", kInteger, -2, 1 << 24, "-1",
     "tokens to generate; negative: until the text or the context ends"},
    {"num_ctx", kInteger, 0, 1 << 24, "", "accepted if the server's context is at least that"},
    {"temperature", kNumber, 0, 10, "0.8", "0: the likeliest token always"},
    {"top_p", kNumber, 0, 1, "0.9", "only the likeliest tokens with this share"},
    {"top_k", kInteger, -1, 1 << 24, "40", "only so many likeliest; 0 or -1: all"},
    {"min_p", kNumber, 0, 1, "0", "only tokens with this share of the likeliest's probability"},
    {"seed", kInteger, -kSeed, kSeed, "",
     "the same seed gives the same text; absent or negative: a fresh one"},
    {"frequency_penalty", kNumber, -2, 2, "0", "subtracted per occurrence"},
    {"presence_penalty", kNumber, -2, 2, "0", "subtracted if it occurs"},
    {"repeat_penalty", kNumber, 0.01, 10, "1.1", "divides the logits of repeated tokens"},
    {"repeat_last_n", kInteger, -1, 1 << 24, "64", "tokens the penalties look back on; -1: all"},
    {"stop", kStrings, 0, 16, "", "the text ends before these"},
    {"logit_bias", kObject, 0, 1024, "", "token id to -100 .. 100; ours, not Ollama's"},
    {"grammar", kString, 0, 1 << 20, "", "GBNF: only texts of this grammar; ours, not Ollama's"},
};

constexpr FieldRow kLoad[] = {
    {"model", kString, 1, kName, "required", "a name that the server has, or will have with `file`"},
    {"file", kString, 0, 4096, "", "load: a model that the server does not have yet"},
};

constexpr FieldRow kFineTuning[] = {
    {"model", kString, 1, kName, "required",
     "a model of the server, or one that a job made: it goes on from that"},
    {"training_file", kString, 1, 64, "required", "id of an uploaded file"},
    {"validation_file", kString, 0, 64, "", "the same; absent: a twentieth of the texts is held back"},
    {"suffix", kString, 0, 64, "", "part of the new model's name"},
    {"seed", kInteger, 0, 2147483647, "",
     "the same seed and settings give the same adapter; absent: a fresh one"},
    {"method", kObject, 0, 8, "", "`supervised`, or `dpo` for lines with `prompt`, `chosen` and `rejected`"},
    {"hyperparameters", kObject, 0, 16, "",
     "`n_epochs`, `batch_size` (windows of texts), `learning_rate_multiplier`; `auto`: chosen from data and "
     "model. "
     "Also in `method`"},
    {"metadata", kObject, 0, 16, "", "kept and shown"},
    {"integrations", kArray, 0, 16, "", "refused unless empty"},
};

}  // namespace

const FieldTable kChatFields{"POST /v1/chat/completions", kChat, kSampling};
const FieldTable kCompletionFields{"POST /v1/completions", kCompletion, kSampling};
const FieldTable kEmbeddingFields{"POST /v1/embeddings", kEmbedding, {}};
const FieldTable kResponseFields{"POST /v1/responses", kResponse, kSampling};
const FieldTable kMessageFields{"POST /v1/messages", kMessage, kSampling};
const FieldTable kMessageCountFields{"POST /v1/messages/count_tokens", kMessageCount, {}};
const FieldTable kTemplateFields{"POST /apply-template", kTemplate, {}};
const FieldTable kLlamaCompletionFields{"POST /completion", kLlamaCompletion, kSampling};
const FieldTable kInfillFields{"POST /infill", kInfill, kSampling};
const FieldTable kRerankFields{"POST /rerank and /v1/rerank", kRerank, {}};
const FieldTable kOllamaNameFields{"POST /api/pull and /api/push, DELETE /api/delete", kOllamaName, {}};
const FieldTable kOllamaEmbeddingFields{"POST /api/embeddings", kOllamaEmbedding, {}};
const FieldTable kTokenizeFields{"POST /tokenize", kTokenize, {}};
const FieldTable kDetokenizeFields{"POST /detokenize", kDetokenize, {}};
const FieldTable kOllamaChatFields{"POST /api/chat", kOllamaChat, {}};
const FieldTable kOllamaGenerateFields{"POST /api/generate", kOllamaGenerate, {}};
const FieldTable kOllamaEmbedFields{"POST /api/embed", kOllamaEmbed, {}};
const FieldTable kOllamaShowFields{"POST /api/show", kOllamaShow, {}};
const FieldTable kOllamaOptionFields{"options of /api/chat and /api/generate", kOllamaOption, {}};
const FieldTable kFineTuningFields{"POST /v1/fine_tuning/jobs", kFineTuning, {}};
const FieldTable kLoadFields{"POST /manage/load and /manage/unload", kLoad, {}};

std::span<const FieldTable* const> field_tables() {
  static constexpr const FieldTable* kTables[] = {
      &kChatFields,         &kCompletionFields,      &kEmbeddingFields,
      &kResponseFields,     &kMessageFields,         &kMessageCountFields,
      &kTemplateFields,     &kLlamaCompletionFields, &kInfillFields,
      &kOllamaNameFields,   &kOllamaEmbeddingFields, &kTokenizeFields,
      &kDetokenizeFields,   &kOllamaChatFields,      &kOllamaGenerateFields,
      &kOllamaOptionFields, &kOllamaEmbedFields,     &kOllamaShowFields,
      &kLoadFields,         &kRerankFields,          &kFineTuningFields,
  };
  return kTables;
}

}  // namespace butterfly::server
