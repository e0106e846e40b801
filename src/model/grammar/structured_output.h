// Text that keeps to rules: GBNF grammars, JSON schemas, any JSON object, regular expressions, tool calls; as
// masks over tokens.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/sampling/token_constraint.h"
#include "model/tokenizer/tokenizer.h"

namespace butterfly::model {

// A function the model may call.
struct ToolSpec {
  std::string name;
  std::string parameters;  // JSON schema as text; empty: any object
};

// How a model writes a call: begin {"name": …, "arguments": …} end.
struct ToolFormat {
  std::string begin = "<tool_call>\n";
  std::string end = "\n</tool_call>";
  std::string between = "\n";  // between two calls
  std::string name_key = "name";
  std::string arguments_key = "arguments";
};

enum class GrammarKind {
  kGbnf,        // text: rules in llama.cpp's notation
  kJsonSchema,  // text: a JSON schema
  kJsonObject,  // any JSON object
  kRegex,       // text: a regular expression that the whole text matches
  kTools,       // calls of `tools` in `format`
};

enum class ToolChoice {
  kForced,  // the text is a call (or several)
  kLazy,    // free text; from format.begin on it is held to the rules
};

struct GrammarSpec {
  GrammarKind kind = GrammarKind::kJsonObject;
  std::string text;
  std::vector<ToolSpec> tools;
  ToolFormat format;
  ToolChoice choice = ToolChoice::kForced;
  bool parallel_calls = false;  // more than one call
  bool assert_formats = true;   // "format" of strings is held to where it is known; false: only a note
  // JSON with white space and escapes wherever they may stand; false: compact, since small models fill their
  // context with them. Calls of tools have a blank behind ':' and ',' if the model likes.
  bool free_white_space = false;
};

// Rules ready for use with one vocabulary. Any number of threads may use one; it needs neither the compiler
// nor the tokenizer it came from.
class CompiledGrammar {
 public:
  virtual ~CompiledGrammar() = default;
  // A fresh text under these rules.
  virtual std::unique_ptr<TokenConstraint> start() const = 0;
  // In memory now, about; it may grow with use.
  virtual size_t bytes() const = 0;
};

struct GrammarOptions {
  // How much a compiler remembers.
  size_t grammars_max = 64;
  size_t bytes_max = size_t{64} << 20;  // of them together; one alone may have more
  // JSON schemas that others may refer to, by URI. Nothing is ever fetched.
  std::map<std::string, std::string> documents = {};
};

// Compiles rules for one vocabulary and remembers the last ones, so that a server that gets the same schema
// with each request pays once. Thread-safe.
class GrammarCompiler {
 public:
  // Reads the vocabulary into a tree (about 0.1 s for 150,000 tokens).
  explicit GrammarCompiler(const Tokenizer& tokenizer, GrammarOptions options = {});
  ~GrammarCompiler();

  // Throws Error: kInvalidArgument for rules that are not well-formed, kUnsupported for a keyword that is not
  // supported (with its JSON pointer) or where the vocabulary cannot write any text that the rules allow,
  // kOutOfMemory for rules past a limit.
  std::shared_ptr<const CompiledGrammar> compile(const GrammarSpec& spec);
  // What compile() gives, if it is remembered; else null, at once.
  std::shared_ptr<const CompiledGrammar> find(const GrammarSpec& spec);
  // Of the grammars that are remembered.
  size_t remembered_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace butterfly::model
