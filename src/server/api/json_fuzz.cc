// libFuzzer: the body of a request through the JSON reader, a table of fields and what reads them.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "server/api/api_error.h"
#include "server/api/fields.h"
#include "server/generation/read_request.h"

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
    read_response_format(body.contains("response_format") ? &body["response_format"] : nullptr,
                         "response_format");
    read_ollama_format(body.contains("format") ? &body["format"] : nullptr);
    const Json* tools = body.contains("tools") && body["tools"].is_array() ? &body["tools"] : nullptr;
    read_tools(tools, body.contains("tool_choice") ? &body["tool_choice"] : nullptr, true);
  } catch (const ApiError& error) {
    if (error.status < 400 || error.status > 499) __builtin_trap();
    if (error_body(error).empty()) __builtin_trap();
  }
  return 0;
}
