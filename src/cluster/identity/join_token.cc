#include "cluster/identity/join_token.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/hex.h"
#include "base/secret.h"
#include "base/sha256.h"

namespace butterfly::cluster {
namespace {

constexpr std::string_view kPrefix = "bf1-";
constexpr size_t kHashDigits = 64;
constexpr size_t kSecretDigits = 32;
constexpr size_t kIdDigits = 8;
constexpr std::chrono::seconds kLifeMax = std::chrono::hours(24 * 365);

constexpr const char* kFile = "tokens";
constexpr std::string_view kFirstLine = "butterfly tokens 1";

}  // namespace

Result<JoinToken> JoinToken::parse(std::string_view text) {
  const size_t size = kPrefix.size() + kHashDigits + 1 + kSecretDigits;
  if (!text.starts_with(kPrefix)) return {Errc::kInvalidArgument, "a join token begins with bf1-"};
  if (text.size() != size)
    return {Errc::kInvalidArgument,
            fmt::format("a join token has {} characters, this one has {}", size, text.size())};
  JoinToken token{.authority_hash = std::string(text.substr(kPrefix.size(), kHashDigits)),
                  .secret = std::string(text.substr(size - kSecretDigits))};
  if (text[kPrefix.size() + kHashDigits] != '-' || !is_hex(token.authority_hash, kHashDigits) ||
      !is_hex(token.secret, kSecretDigits))
    return {Errc::kInvalidArgument,
            "a join token is bf1-, 64 hexadecimal digits, '-', 32 hexadecimal digits"};
  return token;
}

std::string JoinToken::text() const { return fmt::format("{}{}-{}", kPrefix, authority_hash, secret); }

Result<JoinToken> TokenBook::make(const std::string& authority_hash, int uses, std::chrono::seconds life,
                                  WallTime now) {
  if (uses < 1 || uses > kTokenUsesMax)
    return {Errc::kInvalidArgument, fmt::format("a token is for 1 to {} nodes, not {}", kTokenUsesMax, uses)};
  if (life.count() <= 0 || life > kLifeMax)
    return {Errc::kInvalidArgument,
            fmt::format("a token lives for 1 to {} seconds, not {}", kLifeMax.count(), life.count())};
  JoinToken token{.authority_hash = authority_hash, .secret = random_hex(kSecretDigits)};
  const StateFolder::Lock lock(folder_);
  std::vector<Row> rows = read();
  std::erase_if(rows, [&](const Row& row) { return row.expires <= now; });
  if (rows.size() >= kTokensMax)
    return {Errc::kQueueFull, fmt::format("there are {} tokens; revoke some first", rows.size())};
  rows.push_back(
      {.hash = sha256_hex(token.secret), .created = now, .expires = now + life, .uses = uses, .keys = {}});
  write(rows);
  return token;
}

std::vector<TokenInfo> TokenBook::list(WallTime now) const {
  std::vector<TokenInfo> out;
  for (const Row& row : read()) {
    const int left = row.uses - static_cast<int>(row.keys.size());
    if (row.expires > now && left > 0)
      out.push_back({row.hash.substr(0, kIdDigits), row.created, row.expires, row.uses, left});
  }
  return out;
}

Status TokenBook::revoke(std::string_view id_or_token) {
  const auto token = JoinToken::parse(id_or_token);
  const std::string hash = token.ok() ? sha256_hex(token->secret) : std::string(id_or_token);
  const StateFolder::Lock lock(folder_);
  std::vector<Row> rows = read();
  const size_t erased = std::erase_if(
      rows, [&](const Row& row) { return row.hash == hash || row.hash.substr(0, kIdDigits) == hash; });
  if (erased == 0) return {Errc::kNotFound, "there is no such token; the list shows those that are left"};
  write(rows);
  return {};
}

Status TokenBook::redeem(std::string_view secret, const std::string& key, WallTime now) {
  const std::string hash = sha256_hex(secret);
  const StateFolder::Lock lock(folder_);
  std::vector<Row> rows = read();
  Row* found = nullptr;
  for (Row& row : rows)  // all of them, whichever it is
    if (equal_in_constant_time(row.hash, hash)) found = &row;
  const Status refused(
      Errc::kNotFound,
      "the token is unknown, used up, revoked or too old: 'butterfly token new' there makes another");
  if (found == nullptr || found->expires <= now) return refused;
  if (std::find(found->keys.begin(), found->keys.end(), key) != found->keys.end()) return {};
  if (static_cast<int>(found->keys.size()) >= found->uses) return refused;
  found->keys.push_back(key);
  write(rows);
  return {};
}

std::vector<TokenBook::Row> TokenBook::read() const {
  if (!folder_.has(kFile)) return {};
  std::istringstream in(folder_.read(kFile, 32u << 20));
  const std::string place = (folder_.path() / kFile).string();
  std::string line;
  if (!std::getline(in, line) || line != kFirstLine)
    fail(Errc::kCorrupt, "{}:1: expected '{}'", place, kFirstLine);
  std::vector<Row> rows;
  for (size_t number = 2; std::getline(in, line); ++number) {
    std::istringstream words(line);
    Row row;
    int64_t created = 0, expires = 0;
    words >> row.hash >> created >> expires >> row.uses;
    if (!words || !is_hex(row.hash, kHashDigits) || row.uses < 1 || row.uses > kTokenUsesMax)
      fail(Errc::kCorrupt, "{}:{}: expected a hash, two dates and a count", place, number);
    row.created = WallTime(std::chrono::seconds(created));
    row.expires = WallTime(std::chrono::seconds(expires));
    for (std::string key; words >> key;) {
      if (!is_hex(key, kHashDigits))
        fail(Errc::kCorrupt, "{}:{}: expected keys after the count", place, number);
      row.keys.push_back(key);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void TokenBook::write(const std::vector<Row>& rows) const {
  std::string text(kFirstLine);
  text += '\n';
  for (const Row& row : rows) {
    text += fmt::format("{} {} {} {}", row.hash, row.created.time_since_epoch().count(),
                        row.expires.time_since_epoch().count(), row.uses);
    for (const std::string& key : row.keys) text += " " + key;
    text += '\n';
  }
  folder_.write(kFile, text);
}

}  // namespace butterfly::cluster
