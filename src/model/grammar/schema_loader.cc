#include "model/grammar/schema_loader.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json_text.h"
#include "model/grammar/compile_budget.h"
#include "model/grammar/limits.h"
#include "model/grammar/regex.h"
#include "model/grammar/schema_reader.h"

namespace butterfly::model::grammar {

namespace {

const SchemaDocuments& no_documents() {
  static const SchemaDocuments none;
  return none;
}

}  // namespace

void check_schema_depth(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kNestingMax)
        fail(Errc::kOutOfMemory, "schema: nested deeper than {} levels", kNestingMax);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

std::string rethrow_text(std::string_view place, std::string_view what) {
  return fmt::format("schema at '{}': {}", place, what);
}

void SchemaReader::Keyword::bad(std::string_view expected) const {
  fail(Errc::kInvalidArgument, "schema at '{}': expected {}, found {}", place(), expected, value.type_name());
}

void SchemaReader::Keyword::unsupported(std::string_view why) const {
  fail(Errc::kUnsupported, "schema at '{}': keyword '{}' is not supported{}{}", place(), name,
       why.empty() ? "" : ": ", why);
}

std::vector<NodeId> SchemaReader::Keyword::children() const {
  if (!value.is_array()) bad("a list of schemas");
  std::vector<NodeId> nodes;
  for (size_t i = 0; i < value.size(); ++i)
    nodes.push_back(reader.load(value[i], place() + "/" + std::to_string(i), context));
  return nodes;
}

uint64_t SchemaReader::Keyword::count() const {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (value.is_number_float() && value.get<double>() >= 0 && value.get<double>() < 1e15 &&
      value.get<double>() == static_cast<double>(static_cast<uint64_t>(value.get<double>())))
    return static_cast<uint64_t>(value.get<double>());
  bad("a number that counts (0, 1, 2 …)");
}

Decimal SchemaReader::Keyword::number() const {
  if (!value.is_number()) bad("a number");
  return here([&] { return parse_decimal(json_text(value)); });
}

const std::string& SchemaReader::Keyword::text() const {
  if (!value.is_string()) bad("a string");
  return *value.get_ptr<const std::string*>();
}

std::vector<std::string> SchemaReader::Keyword::texts() const {
  if (!value.is_array()) bad("a list of strings");
  std::vector<std::string> out;
  std::set<std::string> seen;
  for (const SchemaJson& item : value) {
    if (!item.is_string()) bad("a list of strings");
    if (seen.insert(item.get<std::string>()).second) out.push_back(item.get<std::string>());
  }
  return out;
}

SchemaReader::SchemaReader(const SchemaJson& document, const SchemaOptions& options)
    : document_(document),
      options_(options),
      refs_(document, options.documents ? *options.documents : no_documents()) {
  if (!document.is_object()) return;
  const auto dialect = document.find("$schema");
  if (dialect == document.end() || !dialect->is_string()) return;
  const std::string uri = dialect->get<std::string>();
  if (uri.find("json-schema.org/") == uri.npos)
    fail(Errc::kUnsupported, "schema at '/$schema': dialect '{}' is not supported", uri);
  for (const char* old : {"draft-03", "draft-04", "draft-05", "draft-06", "draft-07"})
    if (uri.find(old) != uri.npos) ref_stands_alone_ = true;
  for (const char* old : {"draft-03", "draft-04", "draft-05"})
    if (uri.find(old) != uri.npos) integers_are_digits_ = true;
}

SchemaGraph SchemaReader::read() {
  graph_.root = load(document_, "", entered({}, refs_.root_base()));
  while (!pending_.empty()) {
    const PendingRef ref = pending_.front();
    pending_.pop_front();
    const std::string pointer = graph_.nodes[ref.node].pointer;
    const SchemaRefs::Place place =
        ref.dynamic ? refs_.find_dynamic(ref.reference, ref.context.base, pointer, scopes_[ref.context.scope])
                    : refs_.find(ref.reference, ref.context.base, pointer);
    const NodeId target = load(*place.json, place.pointer, entered(ref.context, place.base));
    graph_.nodes[ref.node].ref = target;
  }
  return std::move(graph_);
}

SchemaContext SchemaReader::entered(const SchemaContext& from, std::string base) {
  SchemaContext to{std::move(base), from.scope};
  SchemaRefs::Scope scope = scopes_[from.scope];
  CompileBudget::spend(8 * scope.size());
  if (!refs_.enter(to.base, scope)) return to;
  const auto [found, is_new] =
      scope_ids_.try_emplace(std::move(scope), static_cast<uint32_t>(scopes_.size()));
  if (is_new) scopes_.push_back(found->first);
  to.scope = found->second;
  return to;
}

NodeId SchemaReader::add(const std::string& pointer) {
  if (graph_.nodes.size() >= kSchemaNodesMax)
    fail(Errc::kOutOfMemory, "schema: more than {} subschemas", kSchemaNodesMax);
  const bool fits = pointer.size() <= kPointerBytesMax;
  CompileBudget::spend(1 + std::min(pointer.size(), kPointerBytesMax) / 4);
  graph_.nodes.emplace_back().pointer = fits ? pointer : pointer.substr(0, kPointerBytesMax) + "…";
  return static_cast<NodeId>(graph_.nodes.size() - 1);
}

void SchemaReader::queue_ref(NodeId node, const std::string& reference, const SchemaContext& context,
                             bool dynamic) {
  pending_.push_back({node, reference, context, dynamic});
}

DfaPtr SchemaReader::expression(const std::string& text) {
  DfaPtr& made = expressions_[text];
  if (!made) made = std::make_shared<const Dfa>(regex_dfa(text));
  return made;
}

NodeId SchemaReader::load(const SchemaJson& schema, const std::string& pointer, const SchemaContext& outer) {
  const auto [known, is_new] = loaded_.try_emplace({&schema, outer.scope}, 0);
  if (!is_new) return known->second;
  const NodeId node = known->second = add(pointer);
  if (schema.is_boolean()) {
    graph_.nodes[node].never = !schema.get<bool>();
    return node;
  }
  if (!schema.is_object())
    fail(Errc::kInvalidArgument, "schema at '{}': expected an object or a boolean, found {}", pointer,
         schema.type_name());
  SchemaContext context = outer;
  const bool alone = ref_stands_alone_ && schema.contains("$ref");
  if (const std::string* base = refs_.base_at(schema); base && !alone) context = entered(outer, *base);
  for (const auto& [name, value] : schema.items()) {
    if (alone && name != "$ref" && name != "definitions" && name != "$defs") continue;
    if (const SchemaKeyword* keyword = find_schema_keyword(name))
      keyword->read({*this, node, schema, value, name, context});
  }
  return node;
}

NodeId SchemaReader::constant(const SchemaJson& value, const std::string& pointer, int depth) {
  const NodeId node = add(pointer);
  const auto set = [&](uint8_t types) { graph_.nodes[node].types = types; };
  if (value.is_null()) {
    set(kNull);
  } else if (value.is_boolean()) {
    set(value.get<bool>() ? kTrue : kFalse);
  } else if (value.is_number()) {
    set(kNumber);
    graph_.nodes[node].numbers.push_back(
        std::make_shared<const Dfa>(number_dfa(Relation::kEqual, parse_decimal(json_text(value)))));
  } else if (value.is_string()) {
    set(kString);
    const std::string text[] = {value.get<std::string>()};
    graph_.nodes[node].texts.push_back(std::make_shared<const Dfa>(literal_dfa(text)));
  } else if (value.is_array()) {
    set(kArray);
    std::vector<NodeId> items;
    for (const SchemaJson& item : value) items.push_back(constant(item, pointer, depth + 1));
    const NodeId none = add(pointer);
    graph_.nodes[none].never = true;
    SchemaNode& to = graph_.nodes[node];
    to.min_items = to.max_items = items.size();
    to.prefix_items = std::move(items);
    to.items = none;
  } else {
    set(kObject);
    std::vector<SchemaNode::Property> properties;
    std::vector<std::string> required;
    for (const auto& [name, item] : value.items()) {
      properties.push_back({name, constant(item, pointer, depth + 1)});
      required.push_back(name);
    }
    const NodeId none = add(pointer);
    graph_.nodes[none].never = true;
    SchemaNode& to = graph_.nodes[node];
    to.properties = std::move(properties);
    to.required = std::move(required);
    to.additional = none;
  }
  return node;
}

SchemaGraph load_schema(std::string_view text, const SchemaOptions& options) {
  if (text.size() > kSourceBytesMax)
    fail(Errc::kOutOfMemory, "schema: {} bytes, at most {} are read", text.size(), kSourceBytesMax);
  check_schema_depth(text);
  const CompileBudget budget;
  const SchemaJson document = json_of_text_or_none<SchemaJson>(text);
  if (document.is_discarded()) fail(Errc::kInvalidArgument, "schema: not JSON");
  return about_schema([&] { return SchemaReader(document, options).read(); });
}

}  // namespace butterfly::model::grammar
