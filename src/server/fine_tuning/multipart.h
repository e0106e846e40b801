// Bodies of multipart/form-data: how browsers and SDKs upload files.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace butterfly::server {

struct FormPart {
  std::string name;
  std::string filename;      // as the client says it; empty: a plain field
  std::string_view content;  // of the body that was read
};

inline constexpr size_t kFormPartsMax = 32;
inline constexpr size_t kFormHeadBytesMax = 4096;  // of one part

// The parts in order; they borrow `body`. Takes time in proportion to the body. Throws ApiError 415 for
// another content type and 400 that says what is missing.
std::vector<FormPart> parse_form(std::string_view content_type, std::string_view body);

}  // namespace butterfly::server
