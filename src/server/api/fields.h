// The fields of requests: one row each with type, bounds and default. The table checks requests and writes
// the manual.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/json.h"

namespace butterfly::server {

enum class FieldType {
  kBoolean,
  kInteger,  // bounds are of its value
  kNumber,   // the same
  kString,   // bounds are of its bytes
  kStrings,  // a string or an array of strings; bounds are of their number
  kArray,    // bounds are of its elements
  kObject,   // bounds are of its keys
  kAny,      // what it may be depends; the endpoint's code looks
};
std::string_view field_type_name(FieldType type);

struct FieldRow {
  std::string_view name;
  FieldType type;
  double min, max;  // both included
  std::string_view
      fallback;  // what absent means, as JSON; empty: nothing in particular. "required": it must be there
  std::string_view help;
};

// One kind of request. Rows are looked for in `own` first, then in `shared`.
struct FieldTable {
  std::string_view name;  // "chat": for the manual
  std::span<const FieldRow> own;
  std::span<const FieldRow> shared;
  const FieldRow* find(std::string_view field) const;
};

extern const FieldTable kChatFields, kCompletionFields, kEmbeddingFields, kResponseFields, kMessageFields,
    kMessageCountFields, kTemplateFields, kLlamaCompletionFields, kInfillFields, kRerankFields,
    kOllamaNameFields, kOllamaEmbeddingFields, kTokenizeFields, kDetokenizeFields, kOllamaChatFields,
    kOllamaGenerateFields, kOllamaEmbedFields, kOllamaShowFields, kOllamaOptionFields, kLoadFields,
    kFineTuningFields;
std::span<const FieldTable* const> field_tables();

// The rows of all tables as Markdown, for docs/serve.md.
std::string fields_manual();

// A request's object after it passed its table. `body` and `table` are borrowed. Fields that no row names are
// let through and not looked at: clients send many. One thread.
class Fields {
 public:
  // Throws ApiError 400 naming the field, what was expected and what was found.
  Fields(const Json& body, const FieldTable& table, std::string prefix = {});

  // Null in a request means absent. BF_CHECKs that the table has such a row.
  const Json* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  bool boolean(std::string_view name) const;
  int64_t integer(std::string_view name) const;  // the row must have a default
  double number(std::string_view name) const;
  std::string string(std::string_view name) const;
  std::optional<int64_t> maybe_integer(std::string_view name) const;
  std::vector<std::string> strings(std::string_view name) const;

 private:
  const FieldRow& row(std::string_view name) const;
  void check(const FieldRow& row, const Json& value) const;

  const Json& body_;
  const FieldTable& table_;
  std::string prefix_;  // "options." for an object within
};

}  // namespace butterfly::server
