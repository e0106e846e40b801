#include "server/fine_tuning/multipart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "server/api/api_error.h"

namespace butterfly::server {
namespace {

constexpr size_t kBoundaryMax = 70;  // RFC 2046

[[noreturn]] void bad_form(const std::string& why) {
  throw ApiError(400, "invalid_request_error", "the form cannot be read: " + why);
}

bool equal_letters(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string_view trimmed_view(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The value of `name` in "form-data; name=\"file\"; filename=\"a.jsonl\"": quoted, with \\ before quotes
// inside, or plain. Empty where there is none.
std::string parameter_of(std::string_view text, std::string_view name) {
  size_t at = text.find(';');
  while (at < text.size()) {
    ++at;
    while (at < text.size() && text[at] == ' ') ++at;
    const size_t equals = text.find_first_of("=;", at);
    if (equals == std::string_view::npos) return {};
    if (text[equals] == ';') {
      at = equals;
      continue;
    }
    const std::string_view key = trimmed_view(text.substr(at, equals - at));
    std::string value;
    at = equals + 1;
    if (at < text.size() && text[at] == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at) {
        if (text[at] == '\\' && at + 1 < text.size() && (text[at + 1] == '"' || text[at + 1] == '\\')) ++at;
        value += text[at];
      }
      at = text.find(';', std::min(at, text.size()));
    } else {
      const size_t end = std::min(text.find(';', at), text.size());
      value = trimmed_view(text.substr(at, end - at));
      at = end;
    }
    if (equal_letters(key, name)) return value;
  }
  return {};
}

FormPart part_of(std::string_view head, std::string_view content) {
  FormPart part{.name = {}, .filename = {}, .content = content};
  bool found = false;
  while (!head.empty()) {
    const size_t end = std::min(head.find("\r\n"), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(head.size(), end + 2));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) bad_form("a part has a field without ':'");
    if (!equal_letters(trimmed_view(line.substr(0, colon)), "content-disposition")) continue;
    part.name = parameter_of(line.substr(colon + 1), "name");
    part.filename = parameter_of(line.substr(colon + 1), "filename");
    found = true;
  }
  if (!found || part.name.empty()) bad_form("a part has no name");
  return part;
}

}  // namespace

std::vector<FormPart> parse_form(std::string_view content_type, std::string_view body) {
  if (!equal_letters(trimmed_view(content_type.substr(0, content_type.find(';'))), "multipart/form-data"))
    throw ApiError(415, "invalid_request_error",
                   fmt::format("the body is '{:.60}', expected multipart/form-data", content_type));
  const std::string boundary = parameter_of(content_type, "boundary");
  if (boundary.empty() || boundary.size() > kBoundaryMax) bad_form("its content type names no boundary");
  const std::string mark = "\r\n--" + boundary;
  if (!body.starts_with(std::string_view(mark).substr(2))) bad_form("it does not begin with its boundary");
  std::vector<FormPart> parts;
  size_t at = mark.size() - 2;
  for (;;) {
    const std::string_view rest = body.substr(at);
    if (rest.starts_with("--")) return parts;
    if (!rest.starts_with("\r\n")) bad_form("something else stands behind a boundary");
    if (parts.size() == kFormPartsMax) bad_form(fmt::format("more than {} parts", kFormPartsMax));
    const std::string_view head_and_more = rest.substr(0, kFormHeadBytesMax);
    const size_t head_end = head_and_more.find("\r\n\r\n");
    if (head_end == std::string_view::npos) bad_form("a part's fields do not end");
    const size_t begin = at + head_end + 4;
    const size_t end = body.find(mark, begin);
    if (end == std::string_view::npos) bad_form("it ends before its last boundary");
    const std::string_view head = head_end == 0 ? std::string_view() : body.substr(at + 2, head_end - 2);
    parts.push_back(part_of(head, body.substr(begin, end - begin)));
    at = end + mark.size();
  }
}

}  // namespace butterfly::server
