// Where this checkout is, for tests that read its files or the data beside it. Only for tests and benchmarks.
#pragma once
#include <filesystem>
#include <string_view>

namespace butterfly {

// A file or folder of the checkout: source_path("docs/serve.md").
std::filesystem::path source_path(std::string_view below = {});

// A file or folder of ../shared/data; it may not be there, and tests that need it then say that they were
// skipped.
std::filesystem::path shared_data(std::string_view below = {});

}  // namespace butterfly
