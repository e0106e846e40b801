// Who may lead a cluster, and whose votes decide it: a list that the cluster's authority signed.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/identity/authority.h"
#include "cluster/identity/node_id.h"

namespace butterfly::cluster {

inline constexpr size_t kSeatsMax = 8;
inline constexpr size_t kVotersMax = 15;
inline constexpr size_t kMajorityMin = 3;  // so many voters, and leaders come and go by themselves

// Versions only grow. One with voters in `before` takes the place of another: until a majority of both lists
// has it, both have to agree (Raft's joint consensus). Made where the authority is; any member can check it.
struct Mandate {
  uint64_t version = 0;             // 0: none; then the node that the certificates name leads
  std::vector<NodeId> seats = {};   // may lead
  std::vector<NodeId> voters = {};  // fewer than kMajorityMin: a change of leader is a person's decision
  std::vector<NodeId> before = {};  // voters of the version before
  std::string signature = {};       // of text(), by the authority's key

  bool may_lead(std::string_view key) const;
  bool by_majority() const { return voters.size() >= kMajorityMin; }
  // Whether those who `agreed` are a majority of the voters, and of those before them.
  bool quorum(const std::function<bool(const std::string& key)>& agreed) const;
  // Everybody in it, each once.
  std::vector<NodeId> everybody() const;

  std::string text() const;  // what is signed
  void sign(const Authority& authority) { signature = authority.sign(text()); }
  bool signed_by(const Certificate& authority) const;
  bool operator==(const Mandate&) const = default;
};

}  // namespace butterfly::cluster
