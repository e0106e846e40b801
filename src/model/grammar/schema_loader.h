// Reads a JSON schema (drafts 4 to 2020-12) into nodes, and refuses keywords that are not supported.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/grammar/schema_node.h"

namespace butterfly::model::grammar {

// Other documents that a schema may refer to, by URI; nothing is fetched.
using SchemaDocuments = std::map<std::string, std::string>;

struct SchemaOptions {
  bool assert_formats = true;   // "format" of strings is held to where it is known
  bool plain_integers = false;  // integers are written as digits alone: 10, not 10.0
  const SchemaDocuments* documents = nullptr;
};

// Throws Error: kInvalidArgument for what is no JSON or no schema, kUnsupported with keyword and JSON
// pointer, kOutOfMemory past the limits.
SchemaGraph load_schema(std::string_view text, const SchemaOptions& options = {});

// Runs `make`; an Error that it throws says that it is about a schema, if it does not name a place in it.
template <typename Make>
auto about_schema(Make&& make) {
  try {
    return make();
  } catch (const Error& error) {
    const std::string_view what = error.what();
    throw Error(error.code(),
                what.starts_with("schema") ? std::string(what) : "schema: " + std::string(what));
  }
}

}  // namespace butterfly::model::grammar
