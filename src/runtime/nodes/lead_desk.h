// A node's vote on who leads, and its copy of the journal: what it answers to those who may lead.
#pragma once
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "cluster/identity/credentials.h"
#include "cluster/lead/lead_voter.h"
#include "cluster/transport/link.h"

namespace butterfly::runtime {

inline constexpr Duration kLeadLease = std::chrono::seconds(3);

// Drives a LeadVoter: what it promised is in the state folder before anybody hears of it. Every node has one,
// for its door; a seat's LeadShell asks it like the others. Where a mandate comes from does not matter: the
// authority's signature is checked. Thread-safe. After a failed write nothing is promised.
class LeadDesk {
 public:
  struct Options {
    cluster::StateFolder folder;
    cluster::Certificate authority;
    std::filesystem::path journal = {};  // of a seat: where copies go; empty: this node holds none
  };
  // Throws Error where the folder cannot be read.
  explicit LeadDesk(Options options);
  ~LeadDesk();
  LeadDesk(const LeadDesk&) = delete;
  LeadDesk& operator=(const LeadDesk&) = delete;

  cluster::LeadAnswer answer(const cluster::LeadQuestion& question, const std::string& from);
  // Answers until the link ends.
  void serve(cluster::Link& link);
  // One that a member passed on. False: it is not signed by our authority, or could not be kept.
  bool adopt(const cluster::Mandate& mandate);

  cluster::VoterRecord record() const;
  Duration lease_left() const;
  // Where nodes were last seen; empty: nowhere. Kept over restarts.
  std::string address_of(const std::string& key) const;
  void note_address(const std::string& key, const std::string& address);
  // A leader of this term is promised: older ones are over. Called without locks; one at a time. Null: nobody
  // cares.
  void on_promised(std::function<void(cluster::Term term)> action);
  // From now on this node leads: its journal is its own.
  void close_journal();

 private:
  void keep(const cluster::VoterRecord& record);  // with the lock
  Status copy(const cluster::LeadQuestion& question);

  const Options options_;
  mutable std::mutex mutex_;
  cluster::LeadVoter voter_;
  std::map<std::string, std::string> addresses_;
  std::function<void(cluster::Term term)> on_promised_;
  std::mutex copy_mutex_;  // before mutex_
  int file_ = -1;
  bool whole_ = false;  // `file_` is the journal, not a part of it beside
  bool closed_ = false;
};

// "mandate" of cluster::Leaders, and back.
std::string mandate_bytes(const cluster::Mandate& mandate);
Result<cluster::Mandate> mandate_of_bytes(std::string_view bytes);

}  // namespace butterfly::runtime
