// What is asked and answered when it is decided who leads, and what voters remember of it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/lead/mandate.h"
#include "cluster/member/epoch.h"

namespace butterfly::cluster {

// The number of a leadership: the incarnation of the coordinator that it makes, so that nodes drop what older
// ones order, and epochs of a later one are larger.
using Term = Incarnation;

// Which seats have every entry of the journal that a client may have seen something of.
struct SyncRecord {
  Term term = 0;
  uint64_t number = 0;  // within the term
  std::vector<std::string> keys = {};
  bool newer_than(const SyncRecord& other) const {
    return term != other.term ? term > other.term : number > other.number;
  }
  bool has(std::string_view key) const;
  bool operator==(const SyncRecord&) const = default;
};

// On a voter's disk before it answers.
struct VoterRecord {
  Term promised = 0;        // no older leader is listened to
  std::string holder = {};  // who has it: "key:instance", so that a copied state folder is somebody else
  Mandate mandate = {};
  SyncRecord sync = {};
  bool operator==(const VoterRecord&) const = default;

  std::string encode() const;
  static Result<VoterRecord> decode(std::string_view bytes);
};

// The key of "key:instance".
std::string holder_key(std::string_view holder);

struct SeatAddress {
  std::string key = {}, address = {};
  bool operator==(const SeatAddress&) const = default;
};

struct LeadQuestion {
  enum class Kind : uint8_t {
    kLook,    // what do you know
    kClaim,   // may I lead this term
    kRenew,   // I lead it
    kResign,  // I led it
    kCopy,    // of who leads, to a seat: entries of the journal
  };
  Kind kind = Kind::kLook;
  uint64_t number = 0;  // the answer has it too
  Term term = 0;
  std::string holder = {};
  Mandate mandate = {};
  SyncRecord sync = {};
  std::vector<SeatAddress> addresses = {};  // where those of the mandate were seen last: hints
  // Of kCopy: bytes of the journal from here on. `anew`: what the seat had is over, this is all of it, once a
  // part without `more` has come.
  bool anew = false, more = false;
  std::string lines = {};

  std::vector<std::byte> encode() const;
  static Result<LeadQuestion> decode(std::span<const std::byte> body);
};

struct LeadAnswer {
  uint64_t number = 0;
  bool granted = false;
  VoterRecord record = {};
  Duration lease_left{};  // of record.holder
  std::string why = {};   // not granted

  std::vector<std::byte> encode() const;
  static Result<LeadAnswer> decode(std::span<const std::byte> body);
};

inline constexpr size_t kCopyPartMax = 1u << 20;  // bytes of the journal in one message
inline constexpr size_t kLeadMessageMax = kCopyPartMax + (64u << 10);

}  // namespace butterfly::cluster
