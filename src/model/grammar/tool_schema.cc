#include "model/grammar/tool_schema.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_text.h"
#include "model/grammar/limits.h"
#include "model/grammar/schema_reader.h"

namespace butterfly::model::grammar {

std::string tool_schema(std::span<const ToolSpec> tools, const ToolFormat& format) {
  if (tools.empty()) fail(Errc::kInvalidArgument, "tools: the list is empty");
  SchemaJson calls = SchemaJson::array();
  std::set<std::string> names;
  size_t bytes = 0;
  for (const ToolSpec& tool : tools) {
    if (!names.insert(tool.name).second)
      fail(Errc::kInvalidArgument, "tools: '{}' is there twice", tool.name);
    bytes += tool.parameters.size();
    if (bytes > kSourceBytesMax)
      fail(Errc::kOutOfMemory, "tools: parameters of more than {} bytes", kSourceBytesMax);
    SchemaJson parameters = {{"type", "object"}};
    if (!tool.parameters.empty()) {
      check_schema_depth(tool.parameters);
      parameters = json_of_text_or_none<SchemaJson>(tool.parameters);
      if (parameters.is_discarded())
        fail(Errc::kInvalidArgument, "tools: parameters of '{}' are not JSON", tool.name);
      // A document of its own: "#/…" inside means the parameters.
      if (parameters.is_object() && !parameters.contains("$id"))
        parameters["$id"] = "tool:" + std::to_string(calls.size());
    }
    calls.push_back(
        {{"type", "object"},
         {"properties", {{format.name_key, {{"const", tool.name}}}, {format.arguments_key, parameters}}},
         {"required", {format.name_key, format.arguments_key}},
         {"additionalProperties", false},
         {"x-butterfly-ordered", true}});
  }
  // A name that is not UTF-8 has no place in a JSON text.
  try {
    return json_text(SchemaJson{{"anyOf", calls}});
  } catch (const SchemaJson::exception&) {
    fail(Errc::kInvalidArgument, "tools: a name is not UTF-8");
  }
}

}  // namespace butterfly::model::grammar
