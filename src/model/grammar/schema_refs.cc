#include "model/grammar/schema_refs.h"

#include "base/error.h"
#include "base/json_text.h"
#include "model/grammar/compile_budget.h"
#include "model/grammar/limits.h"
#include "model/grammar/schema_reader.h"

namespace butterfly::model::grammar {

namespace {

std::string without_fragment(std::string_view uri) { return std::string(uri.substr(0, uri.find('#'))); }

bool has_scheme(std::string_view uri) {
  const size_t colon = uri.find_first_of(":/?#");
  return colon != uri.npos && colon > 0 && uri[colon] == ':';
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0) {
      out += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// "a~1b" -> "a/b".
std::string unescaped(std::string_view token) {
  std::string out;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1'))
      out += token[++i] == '0' ? '~' : '/';
    else
      out += token[i];
  }
  return out;
}

// "a/./b/../c" -> "a/c", behind `from`.
std::string without_dots(const std::string& uri, size_t from) {
  const size_t end = std::min(uri.find_first_of("?#", from), uri.size());
  std::vector<std::string_view> kept;
  const std::string_view path = std::string_view(uri).substr(from, end - from);
  for (size_t at = 0; at <= path.size();) {
    const size_t slash = std::min(path.find('/', at), path.size());
    const std::string_view segment = path.substr(at, slash - at);
    const bool last = slash == path.size();
    at = slash + 1;
    if (segment == "..") {
      if (kept.size() > (path.starts_with('/') ? 1 : 0)) kept.pop_back();
    } else if (segment != ".") {
      kept.push_back(segment);
      continue;
    }
    if (last) kept.push_back("");  // a folder
  }
  std::string out = uri.substr(0, from);
  for (size_t i = 0; i < kept.size(); ++i) out.append(i ? "/" : "").append(kept[i]);
  return out + uri.substr(end);
}

const SchemaJson* child(const SchemaJson& json, const std::string& key) {
  if (json.is_object()) {
    CompileBudget::spend(1 + json.size() / 8);  // looks at one key after the other
    const auto found = json.find(key);
    return found == json.end() ? nullptr : &*found;
  }
  if (!json.is_array() || key.empty() || key.size() > 6) return nullptr;
  size_t index = 0;
  for (const char c : key) {
    if (c < '0' || c > '9') return nullptr;
    index = index * 10 + static_cast<size_t>(c - '0');
  }
  return index < json.size() ? &json[index] : nullptr;
}

const std::string* text_at(const SchemaJson& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get_ptr<const std::string*>() : nullptr;
}

bool is_recursive_anchor(const SchemaJson& json) {
  const auto found = json.find("$recursiveAnchor");
  return found != json.end() && found->is_boolean() && found->get<bool>();
}

// Goes from a place along a JSON pointer; false if there is no such place.
bool follow(std::string_view fragment, SchemaRefs::Place& place) {
  if (fragment[0] != '/') return false;
  for (size_t from = 1; from <= fragment.size();) {
    const size_t to = std::min(fragment.find('/', from), fragment.size());
    const std::string token = unescaped(fragment.substr(from, to - from));
    place.json = child(*place.json, token);
    if (!place.json) return false;
    if (place.json->is_object())
      if (const std::string* id = text_at(*place.json, "$id"))
        place.base = without_fragment(resolve_uri(place.base, *id));
    place.pointer += "/" + token;
    from = to + 1;
  }
  return true;
}

}  // namespace

std::string resolve_uri(std::string_view base, std::string_view reference) {
  if (has_scheme(reference)) return std::string(reference);
  const std::string whole = without_fragment(base);
  if (reference.empty() || reference[0] == '#') return whole + std::string(reference);
  if (!has_scheme(whole)) return without_dots(std::string(reference), 0);
  const size_t scheme = whole.find(':') + 1;
  const size_t path =
      whole.compare(scheme, 2, "//") == 0 ? std::min(whole.find('/', scheme + 2), whole.size()) : scheme;
  if (reference.starts_with("//")) return whole.substr(0, scheme) + std::string(reference);
  if (reference[0] == '/') return whole.substr(0, path) + std::string(reference);
  const size_t slash = whole.rfind('/');
  const std::string folder =
      slash == whole.npos || slash < path ? whole.substr(0, path) + "/" : whole.substr(0, slash + 1);
  return without_dots(folder + std::string(reference), path);
}

SchemaRefs::SchemaRefs(const SchemaJson& document, const SchemaDocuments& documents) : document_(document) {
  add_document(document, "", "");
  add_wanted(documents);
}

// A $id below a keyword that nobody knows does not count where a real one has the same URI.
void SchemaRefs::add_document(const SchemaJson& json, const std::string& pointer, const std::string& uri) {
  resources_.try_emplace(uri, Place{&json, pointer, uri});
  collect(json, pointer, uri, Where::kSchemas);
  collect(json, pointer, uri, Where::kEverywhere);
}

// Documents that are referred to, and those they refer to.
void SchemaRefs::add_wanted(const SchemaDocuments& documents) {
  size_t bytes = 0;
  while (!wanted_.empty()) {
    const std::string uri = std::move(wanted_.back());
    wanted_.pop_back();
    const auto found = documents.find(uri);
    if (resources_.count(uri) || found == documents.end()) continue;
    bytes += found->second.size();
    if (bytes > kSourceBytesMax)
      fail(Errc::kOutOfMemory, "schema: refers to more than {} bytes of other documents", kSourceBytesMax);
    check_schema_depth(found->second);
    SchemaJson json = json_of_text_or_none<SchemaJson>(found->second);
    if (json.is_discarded())
      fail(Errc::kInvalidArgument, "schema: '{}', which it refers to, is not JSON", uri);
    others_.push_back(std::move(json));
    add_document(others_.back(), uri + "#", uri);
  }
}

// The recursion is as deep as the document, which the loader has bounded.
void SchemaRefs::collect(const SchemaJson& json, const std::string& pointer, std::string base, Where where) {
  if (json.is_object()) {
    collect_schema(json, pointer, base, where);
    for (const auto& [key, value] : json.items()) {
      if (key == "enum" || key == "const") continue;
      const SchemaPlaces places = where == Where::kEverywhere ? SchemaPlaces::kOne : schema_places(key);
      if (places == SchemaPlaces::kNone) continue;
      if (where == Where::kSchemas && places == SchemaPlaces::kByName && value.is_object()) {
        for (const auto& [name, schema] : value.items())
          collect(schema, pointer + "/" + key + "/" + name, base, where);
      } else {
        collect(value, pointer + "/" + key, base, where);
      }
    }
  } else if (json.is_array()) {
    for (size_t i = 0; i < json.size(); ++i) collect(json[i], pointer + "/" + std::to_string(i), base, where);
  }
}

// The names of one schema; `base` becomes what those inside are relative to.
void SchemaRefs::collect_schema(const SchemaJson& json, const std::string& pointer, std::string& base,
                                Where where) {
  for (const char* key : {"$id", "id"}) {
    const std::string* id = text_at(json, key);
    if (!id) continue;
    // Before draft 6 "id": "#name" was an anchor.
    const std::string uri = resolve_uri(base, *id);
    if (id->starts_with("#")) {
      anchors_.try_emplace(uri, Place{&json, pointer, base});
      continue;
    }
    base = without_fragment(uri);
    if (&json == &document_) root_base_ = base;
    resources_.try_emplace(base, Place{&json, pointer, base});
    if (key[0] == '$') bases_.try_emplace(&json, base);
  }
  for (const char* key : {"$anchor", "$dynamicAnchor"})
    if (const std::string* name = text_at(json, key))
      anchors_.try_emplace(base + "#" + *name, Place{&json, pointer, base});
  if (where == Where::kSchemas) {
    if (const std::string* name = text_at(json, "$dynamicAnchor"))
      dynamic_[*name].try_emplace(base, Place{&json, pointer, base});
    if (is_recursive_anchor(json)) dynamic_[""].try_emplace(base, Place{&json, pointer, base});
  }
  for (const char* key : {"$ref", "$dynamicRef", "$recursiveRef"})
    if (const std::string* reference = text_at(json, key))
      wanted_.push_back(without_fragment(resolve_uri(base, *reference)));
}

const std::string* SchemaRefs::base_at(const SchemaJson& schema) const {
  const auto found = bases_.find(&schema);
  return found == bases_.end() ? nullptr : &found->second;
}

bool SchemaRefs::enter(std::string_view base, Scope& scope) const {
  const std::string resource = without_fragment(base);
  CompileBudget::spend(1 + dynamic_.size());
  bool changed = false;
  for (const auto& [name, places] : dynamic_)
    if (places.size() > 1 && places.count(resource)) changed |= scope.try_emplace(name, resource).second;
  return changed;
}

SchemaRefs::Place SchemaRefs::find_dynamic(std::string_view reference, std::string_view base,
                                           std::string_view pointer, const Scope& scope) const {
  const Place first = find(reference, base, pointer);
  const size_t hash = reference.find('#');
  if (hash == reference.npos || !first.json->is_object()) return first;
  // Only where the place it names at first is a dynamic anchor does the way to it matter.
  const std::string name(reference.substr(hash + 1));
  const std::string* anchor = text_at(*first.json, "$dynamicAnchor");
  if (name.empty() ? !is_recursive_anchor(*first.json) : !anchor || *anchor != name) return first;
  const auto found = scope.find(name);
  return found == scope.end() ? first : dynamic_.at(name).at(found->second);
}

SchemaRefs::Place SchemaRefs::find(std::string_view reference, std::string_view base,
                                   std::string_view pointer) const {
  const std::string uri = resolve_uri(base, reference);
  if (const auto anchor = anchors_.find(uri); anchor != anchors_.end()) return anchor->second;
  const std::string resource = without_fragment(uri);
  const auto found = resources_.find(resource);
  if (found == resources_.end())
    fail(Errc::kUnsupported, "schema at '{}': $ref '{}' leads to another document, which is not here",
         pointer, reference);
  const size_t hash = uri.find('#');
  if (hash == uri.npos || hash + 1 == uri.size()) return found->second;
  const std::string fragment = percent_decoded(std::string_view(uri).substr(hash + 1));
  Place place = found->second;
  if (follow(fragment, place)) return place;
  // Old generators give every subschema an "id" and still mean the whole document by "#/…".
  place = {&document_, "", root_base_};
  if (reference.starts_with('#') && follow(fragment, place)) return place;
  fail(Errc::kInvalidArgument, "schema at '{}': $ref '{}' leads nowhere", pointer, reference);
}

}  // namespace butterfly::model::grammar
