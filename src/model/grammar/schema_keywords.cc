// The keywords of JSON Schema, a row each.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "model/grammar/schema_formats.h"
#include "model/grammar/schema_reader.h"

namespace butterfly::model::grammar {

namespace {

using Keyword = SchemaReader::Keyword;

// Values of any type.

void read_type(const Keyword& k) {
  static const std::map<std::string_view, uint8_t> kTypes{
      {"null", kNull},     {"boolean", kBoolean}, {"integer", kNumber}, {"number", kNumber},
      {"string", kString}, {"array", kArray},     {"object", kObject},  {"any", kAnyType}};
  uint8_t types = 0;
  bool integer = false, number = false;
  const auto add = [&](const SchemaJson& name) {
    const auto found = name.is_string() ? kTypes.find(name.get<std::string>()) : kTypes.end();
    if (found == kTypes.end()) k.bad("a type's name or a list of them");
    types |= found->second;
    integer |= found->first == "integer";
    number |= found->first == "number" || found->first == "any";
  };
  if (k.value.is_array())
    for (const SchemaJson& name : k.value) add(name);
  else
    add(k.value);
  k.to().types &= types;
  if (!integer || number) return;
  // Draft 4 goes by how a number is written, later ones by its value. Written are digits alone where that is
  // wanted: 10.0 is 10, and 10.000 is, too.
  const auto automaton = [](const Dfa& dfa) { return DfaPtr(&dfa, [](auto*) {}); };
  const bool digits_only = k.reader.integers_are_digits();
  k.to().integer = true;
  k.to().integers =
      automaton(digits_only || k.reader.options().plain_integers ? plain_integer() : any_integer());
  k.to().all_integers = automaton(digits_only ? plain_integer() : any_integer());
}

DfaPtr united(std::vector<DfaPtr> dfas) {
  // Two at a time, halving: a product of all at once would carry a state of each.
  while (dfas.size() > 1) {
    std::vector<DfaPtr> next;
    for (size_t i = 0; i + 1 < dfas.size(); i += 2) {
      const DfaFactor factors[] = {{dfas[i].get(), false}, {dfas[i + 1].get(), false}, {&any_number(), true}};
      next.push_back(std::make_shared<const Dfa>(
          product(factors, [](std::span<const uint32_t> l) { return (l[0] || l[1]) && l[2] ? 1u : 0u; })));
    }
    if (dfas.size() % 2) next.push_back(dfas.back());
    dfas = std::move(next);
  }
  return dfas[0];
}

// One of a list of values. Strings share a node, and so do numbers; other values have one each.
void read_values(const Keyword& k, const std::vector<const SchemaJson*>& values) {
  uint8_t simple = 0;
  std::vector<std::string> texts;
  std::vector<DfaPtr> numbers;
  std::vector<NodeId> options;
  for (const SchemaJson* value : values) {
    if (value->is_null())
      simple |= kNull;
    else if (value->is_boolean())
      simple |= value->get<bool>() ? kTrue : kFalse;
    else if (value->is_string())
      texts.push_back(value->get<std::string>());
    else if (value->is_number())
      numbers.push_back(std::make_shared<const Dfa>(
          number_dfa(Relation::kEqual, k.here([&] { return parse_decimal(value->dump()); }))));
    else
      options.push_back(k.reader.constant(*value, k.place()));
  }
  const auto node_of = [&](uint8_t types) {
    options.push_back(k.reader.add(k.place()));
    SchemaReader::Keyword made{k.reader, options.back(), k.schema, k.value, k.name, k.context};
    made.to().types = types;
    return made;
  };
  if (simple) node_of(simple);
  if (!texts.empty()) {
    std::sort(texts.begin(), texts.end());
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    auto dfa = std::make_shared<const Dfa>(k.here([&] { return literal_dfa(texts); }));
    node_of(kString).to().texts.push_back(std::move(dfa));
  }
  if (!numbers.empty()) {
    DfaPtr dfa = k.here([&] { return united(std::move(numbers)); });
    node_of(kNumber).to().numbers.push_back(std::move(dfa));
  }
  k.to().values.push_back(std::move(options));
}

void read_enum(const Keyword& k) {
  if (!k.value.is_array()) k.bad("a list of values");
  std::vector<const SchemaJson*> values;
  for (const SchemaJson& value : k.value) values.push_back(&value);
  read_values(k, values);
}
void read_const(const Keyword& k) { read_values(k, {&k.value}); }

void read_all_of(const Keyword& k) {
  auto nodes = k.children();
  k.to().all_of.insert(k.to().all_of.end(), nodes.begin(), nodes.end());
}
void read_any_of(const Keyword& k) {
  auto nodes = k.children();
  k.to().any_of.push_back(std::move(nodes));
}
void read_one_of(const Keyword& k) {
  auto nodes = k.children();
  k.to().one_of = std::move(nodes);
}
void read_not(const Keyword& k) {
  const NodeId node = k.child();
  k.to().negated = node;
}
void read_if(const Keyword& k) {
  const NodeId node = k.child();
  k.to().condition = node;
}
void read_then(const Keyword& k) {
  const NodeId node = k.child();
  k.to().then_node = node;
}
void read_else(const Keyword& k) {
  const NodeId node = k.child();
  k.to().else_node = node;
}
void read_ref(const Keyword& k) { k.reader.queue_ref(k.node, k.text(), k.context, false); }
void read_dynamic_ref(const Keyword& k) {
  if (k.schema.contains("$ref")) {  // a node has one reference: the other gets a node of its own
    const NodeId other = k.reader.add(k.place());
    k.reader.queue_ref(other, k.text(), k.context, true);
    k.to().all_of.push_back(other);
  } else {
    k.reader.queue_ref(k.node, k.text(), k.context, true);
  }
}

// Strings.

void read_min_length(const Keyword& k) { k.to().min_length = k.count(); }
void read_max_length(const Keyword& k) { k.to().max_length = k.count(); }
void read_pattern(const Keyword& k) {
  DfaPtr dfa = k.here([&] { return k.reader.expression(k.text()); });
  k.to().texts.push_back(std::move(dfa));
}
void read_format(const Keyword& k) {
  if (!k.reader.options().assert_formats || !k.value.is_string()) return;
  if (is_refused_format(k.text())) k.unsupported("format '" + k.text() + "'");
  if (const char* expression = format_expression(k.text())) {
    DfaPtr dfa = k.here([&] { return k.reader.expression(expression); });
    k.to().texts.push_back(std::move(dfa));
  }
}

// Numbers.

void add_bound(const Keyword& k, Relation relation) {
  const Decimal bound = k.number();
  k.to().numbers.push_back(std::make_shared<const Dfa>(number_dfa(relation, bound)));
}
// Draft 4: "exclusiveMinimum": true sharpens "minimum".
bool sharpened(const Keyword& k, const char* by) {
  const auto found = k.schema.find(by);
  return found != k.schema.end() && found->is_boolean() && found->get<bool>();
}
void read_minimum(const Keyword& k) {
  add_bound(k, sharpened(k, "exclusiveMinimum") ? Relation::kGreater : Relation::kAtLeast);
}
void read_maximum(const Keyword& k) {
  add_bound(k, sharpened(k, "exclusiveMaximum") ? Relation::kLess : Relation::kAtMost);
}
void read_exclusive_minimum(const Keyword& k) {
  if (!k.value.is_boolean()) add_bound(k, Relation::kGreater);
}
void read_exclusive_maximum(const Keyword& k) {
  if (!k.value.is_boolean()) add_bound(k, Relation::kLess);
}
void read_multiple_of(const Keyword& k) {
  const Decimal factor = k.number();
  if (factor.negative || factor.zero()) k.bad("a number above 0");
  k.to().numbers.push_back(std::make_shared<const Dfa>(k.here([&] { return multiple_dfa(factor); })));
}

// Arrays.

void read_prefix_items(const Keyword& k) {
  auto nodes = k.children();
  k.to().prefix_items = std::move(nodes);
}
void read_items(const Keyword& k) {
  if (k.value.is_array()) return read_prefix_items(k);  // before draft 2020-12
  const NodeId node = k.child();
  k.to().items = node;
}
void read_additional_items(const Keyword& k) {
  const auto items = k.schema.find("items");
  if (items == k.schema.end() || !items->is_array()) return;
  const NodeId node = k.child();
  k.to().items = node;
}
void read_contains(const Keyword& k) {
  const NodeId node = k.child();
  k.to().contains = node;
}
void read_min_contains(const Keyword& k) { k.to().min_contains = k.count(); }
void read_max_contains(const Keyword& k) { k.to().max_contains = k.count(); }
void read_min_items(const Keyword& k) { k.to().min_items = k.count(); }
void read_max_items(const Keyword& k) { k.to().max_items = k.count(); }
void read_unique_items(const Keyword& k) {
  if (!k.value.is_boolean()) k.bad("true or false");
  k.to().unique_items = k.value.get<bool>();
}
void read_unevaluated_items(const Keyword& k) {
  const NodeId node = k.child();
  k.to().unevaluated_items = node;
}

// Objects.

void read_properties(const Keyword& k) {
  if (!k.value.is_object()) k.bad("an object of schemas");
  std::vector<SchemaNode::Property> properties;
  for (const auto& [name, schema] : k.value.items())
    properties.push_back({name, k.reader.load(schema, k.place() + "/" + name, k.context)});
  k.to().properties = std::move(properties);
}
void read_pattern_properties(const Keyword& k) {
  if (!k.value.is_object()) k.bad("an object of schemas");
  std::vector<SchemaNode::Pattern> patterns;
  for (const auto& [expression, schema] : k.value.items()) {
    DfaPtr names = k.here([&, text = expression] { return k.reader.expression(text); });
    patterns.push_back({std::move(names), k.reader.load(schema, k.place() + "/" + expression, k.context)});
  }
  k.to().patterns = std::move(patterns);
}
void read_additional_properties(const Keyword& k) {
  const NodeId node = k.child();
  k.to().additional = node;
}
void read_unevaluated_properties(const Keyword& k) {
  const NodeId node = k.child();
  k.to().unevaluated_properties = node;
}
void read_property_names(const Keyword& k) {
  const NodeId node = k.child();
  k.to().names = node;
}
void read_required(const Keyword& k) {
  // Draft 3 had "required": true inside of a property; later drafts say nothing about it.
  if (k.value.is_boolean()) return;
  k.to().required = k.texts();
}
void read_min_properties(const Keyword& k) { k.to().min_properties = k.count(); }
void read_max_properties(const Keyword& k) { k.to().max_properties = k.count(); }

// Lists are names that must be there too; other values are schemas.
void read_dependencies(const Keyword& k) {
  if (!k.value.is_object()) k.bad("an object");
  for (const auto& [name, value] : k.value.items()) {
    SchemaNode::Dependency dependency{name, {}, {}};
    const Keyword inner{k.reader, k.node, k.value, value, k.name, k.context};
    if (value.is_array())
      dependency.required = inner.texts();
    else
      dependency.node = k.reader.load(value, k.place() + "/" + name, k.context);
    k.to().dependencies.push_back(std::move(dependency));
  }
}

// Ours: the listed properties come in their order.
void read_ordered(const Keyword& k) { k.to().ordered = k.value.is_boolean() && k.value.get<bool>(); }

void read_nothing(const Keyword&) {}

constexpr auto kOne = SchemaPlaces::kOne, kByName = SchemaPlaces::kByName;

constexpr SchemaKeyword kKeywords[] = {
    {"type", read_type},
    {"enum", read_enum},
    {"const", read_const},
    {"allOf", read_all_of, kOne},
    {"anyOf", read_any_of, kOne},
    {"oneOf", read_one_of, kOne},
    {"not", read_not, kOne},
    {"if", read_if, kOne},
    {"then", read_then, kOne},
    {"else", read_else, kOne},
    {"$ref", read_ref},
    {"$dynamicRef", read_dynamic_ref},
    {"$recursiveRef", read_dynamic_ref},
    {"minLength", read_min_length},
    {"maxLength", read_max_length},
    {"pattern", read_pattern},
    {"format", read_format},
    {"minimum", read_minimum},
    {"maximum", read_maximum},
    {"exclusiveMinimum", read_exclusive_minimum},
    {"exclusiveMaximum", read_exclusive_maximum},
    {"multipleOf", read_multiple_of},
    {"prefixItems", read_prefix_items, kOne},
    {"items", read_items, kOne},
    {"additionalItems", read_additional_items, kOne},
    {"contains", read_contains, kOne},
    {"minContains", read_min_contains},
    {"maxContains", read_max_contains},
    {"minItems", read_min_items},
    {"maxItems", read_max_items},
    {"uniqueItems", read_unique_items},
    {"unevaluatedItems", read_unevaluated_items, kOne},
    {"properties", read_properties, kByName},
    {"patternProperties", read_pattern_properties, kByName},
    {"additionalProperties", read_additional_properties, kOne},
    {"unevaluatedProperties", read_unevaluated_properties, kOne},
    {"propertyNames", read_property_names, kOne},
    {"required", read_required},
    {"minProperties", read_min_properties},
    {"maxProperties", read_max_properties},
    {"dependencies", read_dependencies, kByName},
    {"dependentRequired", read_dependencies},
    {"dependentSchemas", read_dependencies, kByName},
    {"x-butterfly-ordered", read_ordered},
    // Only places for schemas that others refer to.
    {"$defs", read_nothing, kByName},
    {"definitions", read_nothing, kByName},
};

}  // namespace

const SchemaKeyword* find_schema_keyword(std::string_view name) {
  const auto found = std::find_if(std::begin(kKeywords), std::end(kKeywords),
                                  [&](const SchemaKeyword& row) { return row.name == name; });
  return found == std::end(kKeywords) ? nullptr : found;
}

SchemaPlaces schema_places(std::string_view keyword) {
  const SchemaKeyword* found = find_schema_keyword(keyword);
  return found ? found->places : SchemaPlaces::kNone;
}

}  // namespace butterfly::model::grammar
