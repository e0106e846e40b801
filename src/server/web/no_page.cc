// Stands in for the file that web/embed.mjs makes, where npm is missing or could not be used.
#include "server/web/page.h"

namespace butterfly::server {

std::span<const PageFile> page_files() { return {}; }

std::string_view why_no_page() {
  return "This program was built without its web page. To get it: ./scripts/deps.sh page && cmake "
         "--preset release && cmake --build build/release --target butterfly";
}

}  // namespace butterfly::server
