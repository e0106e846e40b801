// Finds the subschema that a reference names, in a document and those that came with it.
#pragma once
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/grammar/schema_loader.h"

namespace butterfly::model::grammar {

using SchemaJson = nlohmann::ordered_json;  // keeps the order of properties

// "http://a/b/c.json" and "d.json#x" -> "http://a/b/d.json#x".
std::string resolve_uri(std::string_view base, std::string_view reference);

// Finds what $ref and $dynamicRef point at, in the schema and in the documents that are at hand; nothing is
// ever fetched. Immutable after the constructor: any thread.
class SchemaRefs {
 public:
  struct Place {
    const SchemaJson* json = nullptr;
    std::string pointer;
    std::string base;  // URI that references inside are relative to
  };
  // What $dynamicRef depends on: by the name of an anchor, the resource on the way from the root that was the
  // first to have it. Only names that several resources have.
  using Scope = std::map<std::string, std::string>;

  // Both are borrowed. Throws Error for a document that is no JSON or past the limits.
  SchemaRefs(const SchemaJson& document, const SchemaDocuments& documents);

  // `base`: of the schema in which the reference stands. Throws Error kUnsupported for a document that is not
  // here, kInvalidArgument for a place that is not there.
  Place find(std::string_view reference, std::string_view base, std::string_view pointer) const;
  // The same for a $dynamicRef.
  Place find_dynamic(std::string_view reference, std::string_view base, std::string_view pointer,
                     const Scope& scope) const;
  // On the way from the root into the resource of this URI. True if the scope changed.
  bool enter(std::string_view base, Scope& scope) const;
  const std::string& root_base() const { return root_base_; }
  // The URI of the resource whose root this schema is; null: it has no $id.
  const std::string* base_at(const SchemaJson& schema) const;

 private:
  enum class Where { kSchemas, kEverywhere };
  void add_document(const SchemaJson& json, const std::string& pointer, const std::string& uri);
  void add_wanted(const SchemaDocuments& documents);
  void collect(const SchemaJson& json, const std::string& pointer, std::string base, Where where);
  void collect_schema(const SchemaJson& json, const std::string& pointer, std::string& base, Where where);

  const SchemaJson& document_;
  std::deque<SchemaJson> others_;  // documents that came with it and are referred to
  std::string root_base_;
  std::map<std::string, Place> resources_;  // by URI without fragment
  std::unordered_map<const SchemaJson*, std::string> bases_;
  std::map<std::string, Place> anchors_;  // by URI#name
  // Anchors of $dynamicRef, by name and resource. Draft 2019-09's $recursiveAnchor is one without a name.
  std::map<std::string, std::map<std::string, Place>> dynamic_;
  std::vector<std::string> wanted_;  // URIs that references name
};

}  // namespace butterfly::model::grammar
