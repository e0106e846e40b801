#include "model/grammar/structured_output.h"

#include <list>
#include <map>
#include <mutex>

#include "base/error.h"
#include "model/grammar/gbnf.h"
#include "model/grammar/json_constraint.h"
#include "model/grammar/schema_loader.h"
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

constexpr size_t kRememberedBytesMax = size_t{8} << 20;  // of sources

}  // namespace

struct GrammarCompiler::Impl {
  Impl(const Tokenizer& tokenizer, size_t max)
      : index(std::make_shared<const TokenIndex>(tokenizer)),
        cache(std::make_shared<TextTokenCache>(index)),
        remembered_max(max) {}

  std::shared_ptr<const CompiledGrammar> make(const GrammarSpec& spec) const {
    switch (spec.kind) {
      case GrammarKind::kGbnf:
        return gbnf_grammar(spec.text, index);
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
            {spec.format.begin, spec.format.end, spec.format.between, spec.parallel_calls, lazy});
      }
    }
    fail(Errc::kInvalidArgument, "grammar: unknown kind");
  }

  std::shared_ptr<const CompiledGrammar> make_json(const GrammarSpec& spec, std::string_view schema,
                                                   JsonEnvelope envelope) const {
    auto matcher = std::make_shared<const JsonMatcher>(
        SchemaSets(load_schema(schema, {.assert_formats = spec.assert_formats})), std::move(envelope));
    return json_grammar(std::make_shared<const JsonMasker>(std::move(matcher), index, cache));
  }

  struct Entry {
    std::shared_ptr<const CompiledGrammar> grammar;
    std::list<std::string>::iterator used;
  };
  std::shared_ptr<const TokenIndex> index;
  std::shared_ptr<TextTokenCache> cache;
  size_t remembered_max;
  std::mutex mutex;
  std::map<std::string, Entry> entries;
  std::list<std::string> order;  // latest first
  size_t bytes = 0;
};

GrammarCompiler::GrammarCompiler(const Tokenizer& tokenizer, size_t remembered_max)
    : impl_(std::make_unique<Impl>(tokenizer, remembered_max)) {}
GrammarCompiler::~GrammarCompiler() = default;

std::shared_ptr<const CompiledGrammar> GrammarCompiler::compile(const GrammarSpec& spec) {
  const std::string key = key_of(spec);
  {
    const std::scoped_lock lock(impl_->mutex);
    if (const auto found = impl_->entries.find(key); found != impl_->entries.end()) {
      impl_->order.splice(impl_->order.begin(), impl_->order, found->second.used);
      return found->second.grammar;
    }
  }
  // Outside of the lock: one large schema does not hold up the others.
  auto grammar = impl_->make(spec);
  const std::scoped_lock lock(impl_->mutex);
  const auto [found, is_new] = impl_->entries.try_emplace(key);
  if (is_new) {
    impl_->order.push_front(key);
    impl_->bytes += key.size();
    found->second = {grammar, impl_->order.begin()};
    while (impl_->entries.size() > impl_->remembered_max ||
           (impl_->bytes > kRememberedBytesMax && !impl_->entries.empty())) {
      impl_->bytes -= impl_->order.back().size();
      impl_->entries.erase(impl_->order.back());
      impl_->order.pop_back();
    }
  }
  return grammar;
}

}  // namespace butterfly::model
