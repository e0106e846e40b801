#include "model/grammar/schema_refs.h"

#include "base/error.h"

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

const SchemaJson* child(const SchemaJson& json, const std::string& key) {
  if (json.is_object()) {
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
  if (!has_scheme(whole)) return std::string(reference);
  const size_t scheme = whole.find(':') + 1;
  const size_t path =
      whole.compare(scheme, 2, "//") == 0 ? std::min(whole.find('/', scheme + 2), whole.size()) : scheme;
  if (reference.starts_with("//")) return whole.substr(0, scheme) + std::string(reference);
  if (reference[0] == '/') return whole.substr(0, path) + std::string(reference);
  const size_t slash = whole.rfind('/');
  if (slash == whole.npos || slash < path) return whole.substr(0, path) + "/" + std::string(reference);
  return whole.substr(0, slash + 1) + std::string(reference);
}

SchemaRefs::SchemaRefs(const SchemaJson& document) : document_(document) {
  resources_[""] = {&document, "", ""};
  collect(document, "", "");
}

// The recursion is as deep as the document, which the loader has bounded.
void SchemaRefs::collect(const SchemaJson& json, const std::string& pointer, std::string base) {
  if (json.is_object()) {
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
      if (pointer.empty()) root_base_ = base;
      resources_.try_emplace(base, Place{&json, pointer, base});
    }
    if (const std::string* name = text_at(json, "$dynamicAnchor")) ++dynamic_[*name];
    for (const char* key : {"$anchor", "$dynamicAnchor"})
      if (const std::string* name = text_at(json, key))
        anchors_.try_emplace(base + "#" + *name, Place{&json, pointer, base});
    for (const auto& [key, value] : json.items())
      if (key != "enum" && key != "const") collect(value, pointer + "/" + key, base);
  } else if (json.is_array()) {
    for (size_t i = 0; i < json.size(); ++i) collect(json[i], pointer + "/" + std::to_string(i), base);
  }
}

bool SchemaRefs::is_static(std::string_view reference) const {
  const size_t hash = reference.find('#');
  if (hash == reference.npos) return true;
  const auto found = dynamic_.find(std::string(reference.substr(hash + 1)));
  return found == dynamic_.end() || found->second <= 1;
}

SchemaRefs::Place SchemaRefs::find(std::string_view reference, std::string_view base,
                                   std::string_view pointer) const {
  const std::string uri = resolve_uri(base, reference);
  if (const auto anchor = anchors_.find(uri); anchor != anchors_.end()) return anchor->second;
  const std::string resource = without_fragment(uri);
  const auto found = resources_.find(resource);
  if (found == resources_.end())
    fail(Errc::kUnsupported, "schema at '{}': $ref '{}' leads to another document, which is not supported",
         pointer, reference);
  const size_t hash = uri.find('#');
  if (hash == uri.npos || hash + 1 == uri.size()) return found->second;
  const std::string fragment = percent_decoded(std::string_view(uri).substr(hash + 1));
  // Old generators give every subschema an "id" and still mean the whole document by "#/…".
  for (Place from : {found->second, Place{&document_, "", root_base_}})
    if (follow(fragment, from)) return from;
  fail(Errc::kInvalidArgument, "schema at '{}': $ref '{}' leads nowhere", pointer, reference);
}

}  // namespace butterfly::model::grammar
