#include "cli/download/fetch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/hex.h"
#include "base/units.h"
#include "cli/download/part_file.h"

namespace butterfly::cli {
namespace {

namespace fs = std::filesystem;

constexpr Duration kPauseMin = std::chrono::milliseconds(100);
constexpr Duration kPauseMax = std::chrono::seconds(5);

// "\"abc\"" and "W/\"abc\"" without what stands around them.
std::string unquoted(std::string text) {
  if (text.starts_with("W/")) text.erase(0, 2);
  std::erase(text, '"');
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// The hash that a server names: the hub does for large files, where it redirects.
std::string named_hash(const HttpHead& head) {
  for (const std::string& text :
       {head.first_header("x-linked-etag"), head.first_header("etag"), head.header("etag")})
    if (is_hex(unquoted(text), 64)) return unquoted(text);
  return "";
}

std::string version_of(const HttpHead& head) {
  for (const std::string& text :
       {head.first_header("x-linked-etag"), head.header("etag"), head.header("last-modified")})
    if (!text.empty()) return text;
  return "";
}

// Words for an answer that is no file; `again`: a later attempt may have more luck.
Status refused(const HttpHead& head, const Url& url, bool with_token) {
  const std::string place = url.text();
  switch (head.status) {
    case 401:
    case 403:
      return {Errc::kInvalidArgument,
              fmt::format("{}: {} ({}); {}", place, "may not be read", head.status,
                          with_token
                              ? "HF_TOKEN may not see it: has its licence been accepted on the model's page?"
                              : "private and gated models need a token in HF_TOKEN")};
    case 404:
      return {Errc::kNotFound, fmt::format("{}: is not there (404); are owner, name and type right?", place)};
    default:
      break;
  }
  const bool again = head.status == 429 || head.status >= 500;
  return {again ? Errc::kPeerLost : Errc::kInvalidArgument,
          fmt::format("{}: the server answered {}", place, head.status)};
}

struct Fetch {
  const Url& url;
  const FetchFileOptions& options;
  PartFile& part;
  std::string expected;           // hash, once somebody named it
  std::optional<uint64_t> total;  // once somebody named it
  uint64_t kept = 0;
  Status judged = {};  // the head's, when it was no file

  Fetch(const Url& from, const FetchFileOptions& how, PartFile& into)
      : url(from), options(how), part(into), expected(how.sha256), total(how.bytes), kept(into.bytes()) {}

  void start_over() {
    part.clear();
    kept = 0;
  }

  bool take_head(const HttpHead& head, const fs::path& to) {
    if (head.status == 416 && part.bytes() > 0) {  // what is here is longer than the file there
      start_over();
      judged = {Errc::kPeerLost, fmt::format("{}: has changed", url.text())};
      return false;
    }
    if (head.status != 200 && head.status != 206) {
      judged = refused(head, url, !options.token.empty());
      return false;
    }
    const std::string hash = named_hash(head), version = version_of(head);
    if (!expected.empty() && !hash.empty() && hash != expected) {
      judged = {Errc::kCorrupt, fmt::format("{}: the list of the hub says SHA-256 {}, the server says {}",
                                            url.text(), expected, hash)};
      return false;
    }
    if (expected.empty()) expected = hash;
    // Bytes of another version, or of one that nobody can tell from others.
    if (head.from > 0 && expected.empty() && (version.empty() || version != part.version())) {
      start_over();
      judged = {Errc::kPeerLost, fmt::format("{}: has changed", url.text())};
      return false;
    }
    if (head.from == 0 && part.bytes() > 0) start_over();
    if (head.from == 0) part.set_version(version);
    if (head.length) {
      const uint64_t whole = head.from + *head.length;
      if (options.bytes && whole != *options.bytes) {
        judged = {Errc::kCorrupt, fmt::format("{}: the list of the hub says {} bytes, the server has {}",
                                              url.text(), *options.bytes, whole)};
        return false;
      }
      total = whole;
      std::error_code ignored;
      const fs::space_info space = fs::space(to.parent_path(), ignored);
      if (!ignored && space.available < *head.length) {
        judged = {Errc::kIo,
                  fmt::format("{}: {} are to come, the disk has room for {}; make room first (butterfly rm)",
                              to.parent_path().string(), format_bytes(*head.length),
                              format_bytes(space.available))};
        return false;
      }
    }
    return true;
  }

  Status attempt(const fs::path& to) {
    judged = {};
    const Status status =
        http_get(url, {.token = options.token, .from = part.bytes(), .patience = options.patience},
                 {.on_head = [&](const HttpHead& head) { return take_head(head, to); },
                  .on_bytes =
                      [&](std::span<const char> bytes) {
                        part.append(bytes);
                        if (options.progress) options.progress(part.bytes(), total);
                      }});
    return judged ? status : judged;
  }
};

}  // namespace

FetchedFile fetch_file(const Url& url, const fs::path& to, const FetchFileOptions& options) {
  const std::string place = url.text();
  PartFile part(
      to, fmt::format("{} {} {}", place.substr(0, place.find('?')), options.sha256, to.filename().string()));
  Fetch fetch(url, options, part);
  Duration pause = kPauseMin;
  const auto is_whole = [&] { return fetch.total && part.bytes() == *fetch.total; };
  for (size_t tries = 0; !is_whole();) {
    const uint64_t before = part.bytes();
    const Status status = fetch.attempt(to);
    if (status) break;
    if (status.code() != Errc::kPeerLost && status.code() != Errc::kTimeout) status.or_throw();
    const bool moved = part.bytes() > before;
    tries = moved ? 0 : tries + 1;
    pause = moved ? kPauseMin : std::min(2 * pause, kPauseMax);
    if (tries >= options.tries)
      fail(status.code(), "{}; {} have come and are kept: the same command goes on from there", status.text(),
           format_bytes(part.bytes()));
    if (options.progress) options.progress(part.bytes(), fetch.total);
    SystemClock::instance().sleep_for(pause);
  }
  FetchedFile fetched{
      .bytes = part.bytes(), .bytes_kept = fetch.kept, .sha256 = part.sha256(), .checked = false};
  if (fetch.total && part.bytes() != *fetch.total) {
    part.drop();
    fail(Errc::kCorrupt, "{}: {} bytes came, expected {}; they were thrown away: try again", place,
         fetched.bytes, *fetch.total);
  }
  fetched.checked = !fetch.expected.empty();
  if (fetched.checked && fetched.sha256 != fetch.expected) {
    part.drop();
    fail(Errc::kCorrupt, "{}: SHA-256 is {}, expected {}; what came was thrown away: try again", place,
         fetched.sha256, fetch.expected);
  }
  part.finish();
  return fetched;
}

}  // namespace butterfly::cli
