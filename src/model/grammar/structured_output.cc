#include "model/grammar/structured_output.h"

#include <list>
#include <map>
#include <mutex>

#include "base/error.h"
#include "model/grammar/compile_budget.h"
#include "model/grammar/gbnf.h"
#include "model/grammar/json_constraint.h"
#include "model/grammar/schema_loader.h"
#include "model/grammar/spelling.h"
#include "model/grammar/text_grammar.h"
#include "model/grammar/tool_schema.h"

namespace butterfly::model {

namespace {

using namespace grammar;

// Everything that decides what is compiled.
std::string key_of(const GrammarSpec& spec) {
  std::string key;
  const auto add = [&](std::string_view text) {
    key += std::to_string(text.size());
    key += ':';
    key += text;
  };
  key += static_cast<char>('0' + static_cast<int>(spec.kind));
  key += static_cast<char>('0' + static_cast<int>(spec.choice));
  key += spec.parallel_calls ? 'p' : '-';
  key += spec.assert_formats ? 'f' : '-';
  key += spec.free_white_space ? 'w' : '-';
  add(spec.text);
  for (const ToolSpec& tool : spec.tools) {
    add(tool.name);
    add(tool.parameters);
  }
  const ToolFormat& format = spec.format;
  for (const std::string* text :
       {&format.begin, &format.end, &format.between, &format.name_key, &format.arguments_key})
    add(*text);
  return key;
}

}  // namespace

struct GrammarCompiler::Impl {
  Impl(const Tokenizer& tokenizer, GrammarOptions chosen)
      : options(std::move(chosen)),
        index(std::make_shared<const TokenIndex>(tokenizer)),
        cache(std::make_shared<TextTokenCache>(index)) {}

  std::shared_ptr<const CompiledGrammar> make(const GrammarSpec& spec) const {
    auto grammar = make_any(spec);
    if (!index->spells_everything() && !may_be_spelled(*grammar, *index))
      fail(Errc::kUnsupported, "the model's vocabulary has no tokens for any text that these rules allow");
    return grammar;
  }

  std::shared_ptr<const CompiledGrammar> make_any(const GrammarSpec& spec) const {
    switch (spec.kind) {
      case GrammarKind::kGbnf:
        return gbnf_grammar(spec.text, index);
      case GrammarKind::kRegex:
        return regex_grammar(spec.text, index);
      case GrammarKind::kJsonSchema:
        return make_json(spec, spec.text, {});
      case GrammarKind::kJsonObject:
        return make_json(spec, R"({"type":"object"})", {});
      case GrammarKind::kTools: {
        const bool lazy = spec.choice == ToolChoice::kLazy;
        if (lazy && spec.format.begin.empty())
          fail(Errc::kInvalidArgument, "tools: calls with nothing before them cannot be told from free text");
        return make_json(
            spec, tool_schema(spec.tools, spec.format),
            {spec.format.begin, spec.format.end, spec.format.between, spec.parallel_calls, lazy, {}});
      }
    }
    fail(Errc::kInvalidArgument, "grammar: unknown kind");
  }

  std::shared_ptr<const CompiledGrammar> make_json(const GrammarSpec& spec, std::string_view schema,
                                                   JsonEnvelope envelope) const {
    const CompileBudget budget;
    const JsonStyle tight = spec.kind == GrammarKind::kTools ? JsonStyle::kSpaced : JsonStyle::kCompact;
    envelope.style = spec.free_white_space ? JsonStyle::kFree : tight;
    const SchemaOptions schema_options{.assert_formats = spec.assert_formats,
                                       .plain_integers = !spec.free_white_space,
                                       .documents = &options.documents};
    auto matcher = std::make_shared<const JsonMatcher>(SchemaSets(load_schema(schema, schema_options)),
                                                       std::move(envelope));
    return json_grammar(std::make_shared<const JsonMasker>(std::move(matcher), index, cache));
  }

  std::shared_ptr<const CompiledGrammar> find(const std::string& key) {
    const std::scoped_lock lock(mutex);
    const auto found = entries.find(key);
    if (found == entries.end()) return nullptr;
    order.splice(order.begin(), order, found->second.used);
    return found->second.grammar;
  }

  // With the lock held. Grammars grow with use, so they are asked each time; there are few.
  size_t bytes() const {
    size_t sum = 0;
    for (const auto& [key, entry] : entries) sum += 2 * key.size() + entry.grammar->bytes();
    return sum;
  }
  void forget_oldest() {
    entries.erase(order.back());
    order.pop_back();
  }

  struct Entry {
    std::shared_ptr<const CompiledGrammar> grammar;
    std::list<std::string>::iterator used;
  };
  const GrammarOptions options;
  std::shared_ptr<const TokenIndex> index;
  std::shared_ptr<TextTokenCache> cache;
  std::mutex mutex;
  std::map<std::string, Entry> entries;
  std::list<std::string> order;  // latest first
};

GrammarCompiler::GrammarCompiler(const Tokenizer& tokenizer, GrammarOptions options)
    : impl_(std::make_unique<Impl>(tokenizer, std::move(options))) {}
GrammarCompiler::~GrammarCompiler() = default;

std::shared_ptr<const CompiledGrammar> GrammarCompiler::find(const GrammarSpec& spec) {
  return impl_->find(key_of(spec));
}

std::shared_ptr<const CompiledGrammar> GrammarCompiler::compile(const GrammarSpec& spec) {
  const std::string key = key_of(spec);
  if (auto known = impl_->find(key)) return known;
  // Outside of the lock: one large schema does not hold up the others.
  auto grammar = impl_->make(spec);
  const std::scoped_lock lock(impl_->mutex);
  const auto [found, is_new] = impl_->entries.try_emplace(key);
  if (is_new) {
    impl_->order.push_front(key);
    found->second = {grammar, impl_->order.begin()};
  }
  while (impl_->entries.size() > impl_->options.grammars_max ||
         (impl_->entries.size() > 1 && impl_->bytes() > impl_->options.bytes_max))
    impl_->forget_oldest();
  return grammar;
}

size_t GrammarCompiler::remembered_bytes() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->bytes();
}

}  // namespace butterfly::model
