// Join tokens: what a new node is given to find the right cluster and to be let in.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/identity/state_folder.h"
#include "cluster/identity/wall_time.h"

namespace butterfly::cluster {

// "bf1-<SHA-256 of the authority's certificate>-<secret>": the first half lets the new node know the cluster,
// the second lets the cluster know the node.
struct JoinToken {
  std::string authority_hash;  // 64 hexadecimal digits
  std::string secret;          // 32: 128 bits from the system's source

  // kInvalidArgument, in words that do not repeat the text.
  static Result<JoinToken> parse(std::string_view text);
  std::string text() const;
};

inline constexpr std::chrono::seconds kTokenLife = std::chrono::hours(1);
inline constexpr int kTokenUsesMax = 1000;

// What may be shown of a token. `id` finds it again; the secret cannot be had from it.
struct TokenInfo {
  std::string id;
  WallTime created;
  WallTime expires;
  int uses = 1;
  int uses_left = 1;
};

// The tokens of a cluster, in the state folder of its authority, as hashes of their secrets. Every change is
// on disk before it counts, under the folder's lock, so that a token for one node lets in one node even when
// the machine dies or two come at once. At most kTokensMax at a time. Any thread, any process.
class TokenBook {
 public:
  static constexpr size_t kTokensMax = 256;

  explicit TokenBook(StateFolder folder) : folder_(std::move(folder)) {}

  // kInvalidArgument for uses outside 1..kTokenUsesMax or a life that is not above zero and up to a year;
  // kQueueFull when there are too many.
  Result<JoinToken> make(const std::string& authority_hash, int uses, std::chrono::seconds life,
                         WallTime now);
  // Those that still let somebody in.
  std::vector<TokenInfo> list(WallTime now) const;
  // By id, or by the token itself. kNotFound.
  Status revoke(std::string_view id_or_token);
  // Lets the node with `key` in, and counts it. The same node may come again (its answer may have been lost
  // on the way) without being counted twice. kNotFound for a secret that is unknown, used up, revoked or too
  // old, without saying which.
  Status redeem(std::string_view secret, const std::string& key, WallTime now);

 private:
  struct Row {
    std::string hash;
    WallTime created, expires;
    int uses = 0;
    std::vector<std::string> keys;  // who used it
  };
  std::vector<Row> read() const;
  void write(const std::vector<Row>& rows) const;

  const StateFolder folder_;
};

}  // namespace butterfly::cluster
