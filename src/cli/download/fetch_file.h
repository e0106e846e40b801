// One file from the web onto the disk: goes on where an earlier attempt stopped, and is there whole, hash
// checked, or not at all.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "cli/download/http_get.h"

namespace butterfly::cli {

struct FetchFileOptions {
  std::string token;
  std::string sha256;             // expected, 64 digits; empty: as the server says, if it does
  std::optional<uint64_t> bytes;  // expected
  std::function<void(uint64_t done, std::optional<uint64_t> total)> progress;  // throws to stop
  Duration patience = std::chrono::seconds(30);  // for each answer of the server
  size_t tries = 8;                              // in a row without a byte
};

struct FetchedFile {
  uint64_t bytes = 0;
  uint64_t bytes_kept = 0;  // of an earlier attempt
  std::string sha256;       // of what is there now
  bool checked = false;     // against a hash that the server or the caller named
};

// `to` appears when all is there; until then the bytes are in a hidden file beside it, named by address and
// hash, which is kept when something goes wrong, but for a wrong hash. Throws Error in words; a connection
// that is cut is made again by itself, as long as bytes come.
FetchedFile fetch_file(const Url& url, const std::filesystem::path& to, const FetchFileOptions& options);

}  // namespace butterfly::cli
