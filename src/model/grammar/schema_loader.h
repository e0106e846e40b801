// Reads a JSON schema (drafts 4 to 2020-12) into nodes, and refuses keywords that are not supported.
#pragma once
#include <string_view>

#include "model/grammar/schema_node.h"

namespace butterfly::model::grammar {

struct SchemaOptions {
  bool assert_formats = true;  // "format" of strings is held to where it is known
};

// Throws Error: kInvalidArgument for what is no JSON or no schema, kUnsupported with keyword and JSON
// pointer, kOutOfMemory past the limits.
SchemaGraph load_schema(std::string_view text, const SchemaOptions& options = {});

}  // namespace butterfly::model::grammar
