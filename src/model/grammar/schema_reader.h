// Internal to the schema loader: what keyword readers share.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/grammar/number_dfa.h"
#include "model/grammar/schema_loader.h"
#include "model/grammar/schema_refs.h"

namespace butterfly::model::grammar {

// Where a schema stands.
struct SchemaContext {
  std::string base;    // URI that its references are relative to
  uint32_t scope = 0;  // of dynamic anchors: index of a SchemaRefs::Scope
};

// Reads one schema into a graph, keyword by keyword. Borrows the document. One thread, one read(); after an
// Error, which names the keyword and its place, it is of no more use.
class SchemaReader {
 public:
  SchemaReader(const SchemaJson& document, const SchemaOptions& options);
  SchemaGraph read();

  // One keyword of one schema. `node` changes place when other nodes are added, so it goes by index.
  struct Keyword {
    SchemaReader& reader;
    NodeId node;
    const SchemaJson& schema;  // the object the keyword stands in
    const SchemaJson& value;
    const std::string& name;
    const SchemaContext& context;

    SchemaNode& to() const { return reader.graph_.nodes[node]; }
    std::string place() const { return reader.graph_.nodes[node].pointer + "/" + name; }
    [[noreturn]] void bad(std::string_view expected) const;
    [[noreturn]] void unsupported(std::string_view why = {}) const;

    NodeId child() const { return reader.load(value, place(), context); }
    std::vector<NodeId> children() const;
    uint64_t count() const;
    Decimal number() const;
    const std::string& text() const;
    std::vector<std::string> texts() const;
    // Runs `make`, with this place before the text of an Error that it throws.
    template <typename Make>
    auto here(Make&& make) const;
  };

  // A schema has a node for each scope that it is reached in.
  NodeId load(const SchemaJson& schema, const std::string& pointer, const SchemaContext& outer);
  // A schema that only this value satisfies.
  NodeId constant(const SchemaJson& value, const std::string& pointer, int depth = 0);
  NodeId add(const std::string& pointer);
  DfaPtr expression(const std::string& text);
  const SchemaOptions& options() const { return options_; }
  // Before draft 2019-09 nothing beside a $ref counted.
  bool ref_stands_alone() const { return ref_stands_alone_; }
  // Before draft 6 1.0 was no integer.
  bool integers_are_digits() const { return integers_are_digits_; }
  void queue_ref(NodeId node, const std::string& reference, const SchemaContext& context, bool dynamic);

 private:
  struct PendingRef {
    NodeId node;
    std::string reference;
    SchemaContext context;
    bool dynamic;
  };
  // The context inside of the resource of this URI.
  SchemaContext entered(const SchemaContext& from, std::string base);

  const SchemaJson& document_;
  SchemaOptions options_;
  SchemaRefs refs_;
  SchemaGraph graph_;
  bool ref_stands_alone_ = false;
  bool integers_are_digits_ = false;
  std::vector<SchemaRefs::Scope> scopes_{{}};
  std::map<SchemaRefs::Scope, uint32_t> scope_ids_{{{}, 0}};
  std::map<std::pair<const SchemaJson*, uint32_t>, NodeId> loaded_;  // by scope
  std::deque<PendingRef> pending_;
  std::map<std::string, DfaPtr> expressions_;
};

// Where a keyword's value has schemas.
enum class SchemaPlaces { kNone, kOne, kByName };  // kOne: it is one, or a list of them
SchemaPlaces schema_places(std::string_view keyword);

// One row per keyword that means something here; others are notes.
struct SchemaKeyword {
  std::string_view name;
  void (*read)(const SchemaReader::Keyword& keyword);
  SchemaPlaces places = SchemaPlaces::kNone;
};
const SchemaKeyword* find_schema_keyword(std::string_view name);

// Before parsing: what walks a document may then recurse. Throws Error kOutOfMemory.
void check_schema_depth(std::string_view text);
std::string rethrow_text(std::string_view place, std::string_view what);

template <typename Make>
auto SchemaReader::Keyword::here(Make&& make) const {
  try {
    return make();
  } catch (const Error& error) {
    throw Error(error.code(), rethrow_text(place(), error.what()));
  }
}

}  // namespace butterfly::model::grammar
