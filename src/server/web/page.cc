#include "server/web/page.h"

namespace butterfly::server {

const PageFile* find_page_file(std::string_view name) {
  for (const PageFile& file : page_files())
    if (file.name == name) return &file;
  return nullptr;
}

}  // namespace butterfly::server
