// Finds the subschema that a $ref names, within one document.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace butterfly::model::grammar {

using SchemaJson = nlohmann::ordered_json;  // keeps the order of properties

// "http://a/b/c.json" and "d.json#x" -> "http://a/b/d.json#x".
std::string resolve_uri(std::string_view base, std::string_view reference);

class SchemaRefs {
 public:
  struct Place {
    const SchemaJson* json = nullptr;
    std::string pointer;
    std::string base;  // URI that references inside are relative to
  };

  explicit SchemaRefs(const SchemaJson& document);

  // `base`: of the schema in which the reference stands. Throws Error kUnsupported for another document,
  // kInvalidArgument for a place that is not there.
  Place find(std::string_view reference, std::string_view base, std::string_view pointer) const;
  // At most one $dynamicAnchor has the name of the fragment.
  bool is_static(std::string_view reference) const;
  const std::string& root_base() const { return root_base_; }

 private:
  void collect(const SchemaJson& json, const std::string& pointer, std::string base);

  const SchemaJson& document_;
  std::string root_base_;
  std::map<std::string, Place> resources_;  // by URI without fragment
  std::map<std::string, Place> anchors_;    // by URI#name
  std::map<std::string, int> dynamic_;      // how many have the name
};

}  // namespace butterfly::model::grammar
