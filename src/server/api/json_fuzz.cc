// libFuzzer: the body of a request through the JSON reader, a table of fields and what reads them.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "server/api/api_error.h"
#include "server/api/fields.h"
#include "server/generation/read_request.h"
#include "server/generation/read_rules.h"
#include "server/generation/responses_input.h"

using namespace butterfly::server;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto tables = field_tables();
  const FieldTable& table = *tables[data[0] % tables.size()];
  try {
    const Json body = parse_json({reinterpret_cast<const char*>(data) + 1, size - 1});
    if (parse_json(to_text(body)) != body) __builtin_trap();  // what we write we read back
    const Fields fields(body, table);
    for (const auto rows : {table.own, table.shared})
      for (const FieldRow& row : rows) {
        if (!fields.has(row.name)) continue;
        switch (row.type) {
          case FieldType::kBoolean:
            fields.boolean(row.name);
            break;
          case FieldType::kInteger:
            fields.integer(row.name);
            break;
          case FieldType::kNumber:
            fields.number(row.name);
            break;
          case FieldType::kString:
            fields.string(row.name);
            break;
          case FieldType::kStrings:
            fields.strings(row.name);
            break;
          default:
            break;
        }
      }
    const auto member = [&](const char* name) { return body.contains(name) ? &body[name] : nullptr; };
    // Tables with the fields of sampling have those of rules.
    if (!table.shared.empty()) read_rules(fields, member("response_format"), "response_format");
    read_ollama_rules(member("format"), "");
    const Json* tools = member("tools");
    if (tools != nullptr && !tools->is_array()) tools = nullptr;
    if (&table == &kResponseFields) {
      const ResponseTools given = tools_of_response(tools);
      read_tools(&given.list, member("tool_choice"), true);
      messages_of_input(*fields.find("input"), fields.string("instructions"));
    } else {
      read_tools(tools, member("tool_choice"), true);
    }
  } catch (const ApiError& error) {
    if (error.status < 400 || error.status > 499) __builtin_trap();
    if (error_body(error).empty()) __builtin_trap();
  }
  return 0;
}
