// The journal of who leads, on its way to another seat.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cluster/lead/lead_record.h"
#include "cluster/transport/link.h"

namespace butterfly::runtime {

// What the file of the journal holds, for those who copy it: as large as that is bounded (StreamJournal).
// Thread-safe.
class JournalMirror {
 public:
  void set(const std::string& all);
  uint64_t append(const std::string& lines);  // its number

  // What follows `offset` of this life of the file; waits for it, at most `wait`.
  struct Part {
    uint64_t life = 0;
    size_t offset = 0;  // of `bytes`
    std::string bytes;
    uint64_t number = 0;   // of the last line, if `last`
    bool last = false;     // nothing follows now
    bool nothing = false;  // nothing came
  };
  Part next(uint64_t life, size_t offset, Duration wait);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string bytes_;
  uint64_t life_ = 0, number_ = 0;  // 0: nobody has said yet what it holds; nothing is copied before
};

// One thread that sends the mirror to one seat and stays with it, until it is destroyed. After a failure it
// begins anew.
class JournalCopier {
 public:
  struct Options {
    std::function<Result<std::unique_ptr<cluster::Link>>()> connect;
    cluster::LeadQuestion question;               // term and holder
    std::function<void(uint64_t number)> copied;  // the seat has everything up to there
    std::function<void(const std::string& why)> lost;
  };
  JournalCopier(JournalMirror& mirror, Options options);
  ~JournalCopier();

 private:
  void run();
  Status send(cluster::Link& link, uint64_t session);

  JournalMirror& mirror_;
  const Options options_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::shared_ptr<cluster::Link> link_;  // with the mutex: to be closed at the end
  std::thread thread_;
};

}  // namespace butterfly::runtime
