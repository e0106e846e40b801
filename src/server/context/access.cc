#include "server/context/access.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/hex.h"
#include "base/secret.h"

namespace butterfly::server {
namespace {

constexpr size_t kKeyBytesMin = 16;
constexpr size_t kKeyBytesMax = 512;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// Without the port and the brackets of IPv6; empty if it is no host.
std::string host_part(std::string_view text) {
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return {};
    const std::string_view rest = text.substr(end + 1);
    return rest.empty() || rest.front() == ':' ? lower(text.substr(1, end - 1)) : std::string();
  }
  const size_t colon = text.find(':');
  std::string host = lower(text.substr(0, colon));
  if (host.ends_with('.')) host.pop_back();
  return host;
}

bool is_address(const std::string& host) {
  in_addr v4;
  in6_addr v6;
  return inet_pton(AF_INET, host.c_str(), &v4) == 1 || inet_pton(AF_INET6, host.c_str(), &v6) == 1;
}

bool contains(const std::vector<std::string>& list, std::string_view text) {
  return std::any_of(list.begin(), list.end(), [&](const std::string& row) { return lower(row) == text; });
}

// Pages that came from here: what they are called by was checked as Host.
bool is_own_page(std::string_view origin, std::string_view host) {
  const std::string from = lower(origin), own = lower(host);
  return from == "http://" + own || from == "https://" + own;
}

// A link on another site that somebody followed to the page: it gets what anybody gets, in a window of its
// own.
bool opens_page(const HttpRequest& request) {
  const std::string* mode = request.field("sec-fetch-mode");
  const std::string* dest = request.field("sec-fetch-dest");
  return request.method == "GET" && request.path == "/" && mode != nullptr && *mode == "navigate" &&
         dest != nullptr && *dest == "document";
}

// The key that a request brings: the first of its two fields that `keys` know.
template <typename Find>
std::optional<uint64_t> key_owner(const HttpRequest& request, const Find& find) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string* authorization = request.field("authorization");
  const std::string* plain = request.field("x-api-key");  // Anthropic's clients
  // A client that sends both has one of them from its surroundings: either may be the right one.
  std::optional<uint64_t> found;
  if (authorization != nullptr) {
    const std::string_view text = *authorization;
    const bool bearer = text.size() > kScheme.size() && lower(text.substr(0, kScheme.size())) == kScheme;
    if (bearer) found = find(text.substr(kScheme.size()));
  }
  if (!found && plain != nullptr) found = find(*plain);
  return found;
}

unsigned mode_of(const std::filesystem::path& file) {
  struct stat about {};
  if (::stat(file.c_str(), &about) != 0) fail(Errc::kNotFound, "{}: {}", file.string(), std::strerror(errno));
  return about.st_mode & 0777;
}

}  // namespace

void KeySet::add(std::string_view key) {
  const bool plain = std::all_of(key.begin(), key.end(), [](unsigned char c) { return c > ' ' && c < 127; });
  if (key.size() < kKeyBytesMin || key.size() > kKeyBytesMax || !plain)
    fail(Errc::kInvalidArgument,
         "an API key has {} to {} visible characters, found one of {}; make one with --make-key FILE",
         kKeyBytesMin, kKeyBytesMax, key.size());
  hashes_.push_back(sha256(std::as_bytes(std::span(key))));
}

namespace {

// A number for the key that this is the hash of.
uint64_t owner_of(const Sha256& hash) {
  uint64_t number;
  std::memcpy(&number, hash.data(), sizeof number);
  return number | 1;
}

}  // namespace

void KeySet::add_file(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) fail(Errc::kNotFound, "{}: cannot read the API keys: {}", file.string(), std::strerror(errno));
  const unsigned mode = mode_of(file);
  if ((mode & 022) != 0)
    fail(Errc::kInvalidArgument, "{}: others may add keys to it (mode {:o}); chmod 600 it", file.string(),
         mode);
  size_t number = 0, found = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    line = line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
    constexpr std::string_view kBackground = "background";
    const size_t blank = line.find_last_of(" \t");
    const bool background = blank != std::string::npos && line.substr(blank + 1) == kBackground;
    if (background) line.erase(line.find_last_not_of(" \t", blank) + 1);
    if (line.starts_with("sha256:")) {
      Sha256 hash;
      if (!from_hex(std::string_view(line).substr(7), hash))
        fail(Errc::kCorrupt, "{}:{}: expected 64 hexadecimal digits after sha256:", file.string(), number);
      hashes_.push_back(hash);
    } else {
      if ((mode & 077) != 0)
        fail(Errc::kInvalidArgument,
             "{}:{}: holds a key that others may read (mode {:o}); chmod 600 it, or keep only hashes there "
             "(--make-key)",
             file.string(), number, mode);
      add(line);
    }
    if (background) background_.insert(owner_of(hashes_.back()));
    ++found;
  }
  if (found == 0) fail(Errc::kInvalidArgument, "{}: holds no API key", file.string());
}

std::optional<uint64_t> KeySet::find(std::string_view key) const {
  const Sha256 hash = sha256(std::as_bytes(std::span(key)));
  uint64_t owner = 0;
  for (const Sha256& mine : hashes_) {
    const uint64_t same = CRYPTO_memcmp(mine.data(), hash.data(), hash.size()) == 0 ? ~uint64_t{0} : 0;
    owner |= same & owner_of(mine);
  }
  return owner != 0 ? std::optional<uint64_t>(owner) : std::nullopt;
}

std::string make_key() { return "bf-" + random_hex(64); }

std::string make_key_in(const std::filesystem::path& file) {
  const std::string key = make_key();
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) fail(Errc::kIo, "{}: cannot write the key: {}", file.string(), std::strerror(errno));
  const std::string line = "sha256:" + sha256_hex(key) + "\n";
  const bool written =
      ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()) && ::fsync(fd) == 0;
  if (::close(fd) != 0 || !written) fail(Errc::kIo, "{}: cannot write the key", file.string());
  return key;
}

bool is_loopback(std::string_view text) {
  // An IPv6 address without brackets has colons of its own.
  const std::string host =
      std::count(text.begin(), text.end(), ':') > 1 && !text.starts_with('[') ? lower(text) : host_part(text);
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return host == "localhost" || host == "::1";
}

bool AccessPolicy::allows_host(std::string_view text) const {
  const std::string host = host_part(text);
  return host == "localhost" || is_address(host) || (!host.empty() && contains(options_.hosts, host));
}

bool AccessPolicy::allows_origin(std::string_view text) const {
  const std::string origin = lower(text);
  if (contains(options_.origins, origin) || contains(options_.origins, "*")) return true;
  const size_t scheme = origin.find("://");
  if (scheme == std::string::npos) return false;  // "null" among others
  const std::string_view rest = std::string_view(origin).substr(scheme + 3);
  return (origin.starts_with("http://") || origin.starts_with("https://")) && is_loopback(rest);
}

std::optional<ApiError> AccessPolicy::check_site(const HttpRequest& request) const {
  const std::string* host = request.field("host");
  if (host == nullptr) return ApiError(400, "invalid_request_error", "the header has no Host");
  if (!allows_host(*host))
    return ApiError(
        421, "invalid_request_error",
        fmt::format(
            "this server does not answer to the name '{:.100}'; start it with --allow-host to allow it",
            *host),
        {}, "host_not_allowed");
  const std::string* origin = request.field("origin");
  const std::string* site = request.field("sec-fetch-site");
  if (origin != nullptr && !is_own_page(*origin, *host) && !allows_origin(*origin))
    return ApiError(
        403, "invalid_request_error",
        fmt::format("pages of '{:.100}' may not use this server; start it with --allow-origin to allow them",
                    *origin),
        {}, "origin_not_allowed");
  if (origin == nullptr && site != nullptr && *site == "cross-site" && !opens_page(request))
    return ApiError(403, "invalid_request_error", "pages of other sites may not use this server", {},
                    "origin_not_allowed");
  return std::nullopt;
}

std::optional<ApiError> AccessPolicy::check_key(const HttpRequest& request, uint64_t* owner) const {
  *owner = 0;
  if (!needs_key()) return std::nullopt;
  if (request.field("authorization") == nullptr && request.field("x-api-key") == nullptr)
    return ApiError(401, "authentication_error",
                    "an API key is needed: Authorization: Bearer KEY, or x-api-key: KEY", {},
                    "missing_api_key");
  const auto found = key_owner(request, [this](std::string_view key) {
    const auto owner_of = options_.keys.find(key), operator_of = options_.operators.find(key);
    return owner_of ? owner_of : operator_of;
  });
  if (!found)
    return ApiError(401, "authentication_error", "the API key is not one of this server's", {},
                    "invalid_api_key");
  *owner = *found;
  return std::nullopt;
}

std::optional<ApiError> AccessPolicy::check_operator(const HttpRequest& request) const {
  if (options_.operators.empty())
    return ApiError(403, "permission_error",
                    "this server takes no changes of its cluster over HTTP: use 'butterfly node' and "
                    "'butterfly token' on its machine, or start it with --operator-key-file",
                    {}, "no_operators");
  if (key_owner(request, [this](std::string_view key) { return options_.operators.find(key); }))
    return std::nullopt;
  return ApiError(403, "permission_error", "this needs the key of an operator (--operator-key-file)", {},
                  "not_an_operator");
}

}  // namespace butterfly::server
