// `butterfly tokenize`: a text as the model sees it.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/flags.h"
#include "cli/console/options.h"
#include "cli/console/text_input.h"
#include "cli/models/model_input.h"
#include "model/tokenizer/tokenizer.h"

namespace butterfly::cli {
namespace {

struct TokenizeOptions {
  ModelInput model;
  TextInput text;
  bool ids = false;
  bool no_bos = false;
  bool special = false;
  bool json = false;
};

// Vocabularies hold tabs, newlines and half characters; a table needs them visible.
std::string visible(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\\') {
      out += "\\\\";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

void print_json(const model::Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool ids_only) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const int32_t id : ids) {
    if (ids_only) {
      json.push_back(id);
    } else {
      json.push_back({{"id", id}, {"text", tokenizer.token_text(id)}});
    }
  }
  // A token may hold part of a character, which JSON cannot say: shown as U+FFFD.
  fmt::print("{}\n", json_text(json));
}

int tokenize(const TokenizeOptions& options) {
  const model::ModelFile file = options.model.open();
  const auto tokenizer = model::make_tokenizer(file.metadata());
  model::EncodeOptions encode;
  if (options.no_bos) encode.add_bos = encode.add_eos = false;
  encode.parse_special = options.special;
  const std::vector<int32_t> ids = tokenizer->encode(options.text.read(), encode);

  if (options.json) {
    print_json(*tokenizer, ids, options.ids);
  } else if (options.ids) {
    fmt::print("{}\n", fmt::join(ids, " "));
  } else {
    for (const int32_t id : ids) fmt::print("{:>8}  {}\n", id, visible(tokenizer->token_text(id)));
  }
  return kExitOk;
}

}  // namespace

CommandBody setup_tokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  options->model.add_to(app);
  options->text.add_to(app);
  add_flag(app, "--ids", options->ids, "Only the ids, on one line");
  add_flag(app, "--no-bos", options->no_bos,
           "Leave out the tokens the model asks for before and after a text");
  add_flag(app, "--special", options->special, "Control tokens written in the text (</s>) become their ids");
  add_json_flag(app, options->json);
  return [options] { return tokenize(*options); };
}

}  // namespace butterfly::cli
