// Who may talk to the server: names it answers to, pages that may call it, and keys.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "server/api/api_error.h"
#include "server/http/http_message.h"

namespace butterfly::server {

// API keys by their SHA-256: the keys themselves are not kept, so they cannot leak into a log or a core dump.
// Filled by one thread at start; then any may ask.
class KeySet {
 public:
  // Throws Error kInvalidArgument for a key that is too short to be secret (under 16 characters) or has
  // blanks.
  void add(std::string_view key);
  // A file with one key, or "sha256:" and 64 digits, per line, and "background" behind it where its requests
  // come after those of other keys; '#' begins a comment. Throws Error that names
  // file and line; also for a file that others may write, or read if it holds keys themselves.
  void add_file(const std::filesystem::path& file);

  bool empty() const { return hashes_.empty(); }
  size_t size() const { return hashes_.size(); }
  // A number for the key's owner, never 0, or nothing. The time it takes does not depend on how much of a key
  // is right, nor on which one it is.
  std::optional<uint64_t> find(std::string_view key) const;
  bool is_background(uint64_t owner) const { return background_.contains(owner); }

 private:
  std::vector<Sha256> hashes_;
  std::set<uint64_t> background_;  // owners
};

// "bf-" and 64 random digits: 256 bits.
std::string make_key();
// Adds the hash of a new key to `file`, which only its owner can read, and returns the key: the only time it
// is seen.
std::string make_key_in(const std::filesystem::path& file);

struct AccessOptions {
  KeySet keys;
  KeySet operators;                  // of those who may change the cluster over HTTP; good for the rest, too
  std::vector<std::string> hosts;    // names besides localhost and plain addresses
  std::vector<std::string> origins;  // "https://chat.example.org"; pages of this machine are allowed anyway
};

// What the options allow, asked for every request before its body is read. Immutable: any thread.
class AccessPolicy {
 public:
  explicit AccessPolicy(AccessOptions options) : options_(std::move(options)) {}

  // Names (DNS rebinding): a page whose name was turned to this address sends that name as Host. Plain
  // addresses cannot be turned. Pages (drive-by): browsers send Origin with what a foreign page asks for.
  // Both are checked for every method.
  std::optional<ApiError> check_site(const HttpRequest& request) const;
  // The key's owner; 0 where no key is asked for.
  std::optional<ApiError> check_key(const HttpRequest& request, uint64_t* owner) const;

  // For what changes the cluster: only with an operator's key, never without one.
  std::optional<ApiError> check_operator(const HttpRequest& request) const;

  bool allows_host(std::string_view host) const;  // with or without port
  bool allows_origin(std::string_view origin) const;
  bool needs_key() const { return !options_.keys.empty(); }
  // Whether this owner's requests come after those of others.
  bool is_background(uint64_t owner) const { return options_.keys.is_background(owner); }

 private:
  AccessOptions options_;
};

// True for an address that only this machine can reach: 127.0.0.1, ::1, localhost.
bool is_loopback(std::string_view host);

}  // namespace butterfly::server
