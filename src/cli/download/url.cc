#include "cli/download/url.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace butterfly::cli {
namespace {

constexpr size_t kUrlBytesMax = 8192;

Status wrong(std::string_view text, std::string_view why) {
  return {Errc::kInvalidArgument, fmt::format("'{:.200}': {}", text, why)};
}

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("-._~/").find(c) != std::string_view::npos;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

}  // namespace

std::string Url::authority() const {
  return host.find(':') == std::string::npos ? host + ":" + port : "[" + host + "]:" + port;
}

std::string Url::text() const {
  const bool usual = port == (tls ? "443" : "80");
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return fmt::format("{}://{}{}{}", tls ? "https" : "http", name, usual ? "" : ":" + port, target);
}

bool Url::on_loopback() const { return host == "localhost" || host == "::1" || host.starts_with("127."); }

Result<Url> parse_url(std::string_view text) {
  if (text.size() > kUrlBytesMax) return wrong(text, "is longer than 8 KiB");
  if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c <= ' ' || c == 127; }))
    return wrong(text, "has spaces or control characters");
  Url url;
  const size_t scheme = text.find("://");
  const std::string kind = lower(text.substr(0, std::min(scheme, text.size())));
  if (scheme == std::string_view::npos || (kind != "http" && kind != "https"))
    return wrong(text, "expected https:// or http://");
  url.tls = kind == "https";
  std::string_view rest = text.substr(scheme + 3);
  const size_t path = std::min(rest.find_first_of("/?#"), rest.size());
  std::string_view place = rest.substr(0, path);
  std::string_view target = rest.substr(path);
  target = target.substr(0, target.find('#'));
  url.target = target.starts_with("/") ? std::string(target) : "/" + std::string(target);
  if (place.find('@') != std::string_view::npos)
    return wrong(text.substr(0, scheme), "names and passwords do not belong into an address; see HF_TOKEN");
  if (place.starts_with("[")) {
    const size_t end = place.find(']');
    if (end == std::string_view::npos) return wrong(text, "'[' without ']'");
    url.host = lower(place.substr(1, end - 1));
    place.remove_prefix(end + 1);
  } else {
    const size_t colon = std::min(place.find(':'), place.size());
    url.host = lower(place.substr(0, colon));
    place.remove_prefix(colon);
  }
  if (url.host.empty()) return wrong(text, "names no host");
  url.port = place.empty() ? (url.tls ? "443" : "80") : std::string(place.substr(1));
  if (url.port.empty() || url.port.size() > 5 ||
      url.port.find_first_not_of("0123456789") != std::string::npos)
    return wrong(text, "the port is no number");
  return url;
}

Result<Url> redirected(const Url& from, std::string_view location) {
  if (location.starts_with("/") && !location.starts_with("//")) {
    Url url = from;
    url.target = std::string(location.substr(0, location.find('#')));
    if (std::any_of(url.target.begin(), url.target.end(),
                    [](unsigned char c) { return c <= ' ' || c == 127; }))
      return wrong(location, "has spaces or control characters");
    return url;
  }
  Result<Url> url = parse_url(location);
  if (url && from.tls && !url->tls) return wrong(location, "leads from https to http, which is not followed");
  return url;
}

std::string url_encoded(std::string_view path) {
  std::string out;
  for (const char c : path) {
    if (is_plain(c))
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string file_name_of(const Url& url) {
  const std::string path = url.target.substr(0, url.target.find('?'));
  return path.substr(path.rfind('/') + 1);
}

}  // namespace butterfly::cli
