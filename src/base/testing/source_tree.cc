#include "base/testing/source_tree.h"

namespace butterfly {

std::filesystem::path source_path(std::string_view below) {
  const std::filesystem::path top = BUTTERFLY_SOURCE_DIR;
  return below.empty() ? top : top / below;
}

std::filesystem::path shared_data(std::string_view below) { return source_path("../shared/data") / below; }

}  // namespace butterfly
