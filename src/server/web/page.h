// The web page (web/) that this program carries: files made by Vite, gzipped, beside its code. Programs that
// were built without npm carry none.
#pragma once
#include <span>
#include <string_view>

namespace butterfly::server {

struct PageFile {
  std::string_view name;  // "index.html", "page/index-4f2a.js": others than the first have their hash in it
  std::string_view content_type;
  std::string_view gzip;
};

// Empty in a program without the page.
std::span<const PageFile> page_files();
const PageFile* find_page_file(std::string_view name);
// What `/` says then, and what to do about it.
std::string_view why_no_page();

// What a page may do: its own files and this server's answers, nothing else; no frame may show it.
inline constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace butterfly::server
