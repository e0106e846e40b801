// Addresses of files on the web: http and https, nothing else.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace butterfly::cli {

struct Url {
  bool tls = true;
  std::string host;  // without brackets
  std::string port;
  std::string target;  // "/path?query", as it goes into a request

  std::string text() const;
  std::string authority() const;  // "host:port", for connecting
  bool same_place(const Url& other) const {
    return tls == other.tls && host == other.host && port == other.port;
  }
  bool on_loopback() const;
};

// kInvalidArgument in words: another scheme, names and passwords, control characters, no host.
Result<Url> parse_url(std::string_view text);

// Where a redirect leads: a whole address, or a path on the same server. Also kInvalidArgument when it leaves
// https.
Result<Url> redirected(const Url& from, std::string_view location);

// Bytes that have a meaning in addresses, as %XX. Slashes stay.
std::string url_encoded(std::string_view path);

// The last part of the path without its query, for a file name; empty: there is none.
std::string file_name_of(const Url& url);

}  // namespace butterfly::cli
