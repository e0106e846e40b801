// The streams of a server that can be taken up again: those of this process, and those that an earlier one
// left in the journal.
#pragma once
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/streams/resumable_stream.h"
#include "server/streams/stream_journal.h"

namespace butterfly::server {

struct StreamTableOptions {
  std::filesystem::path journal;
  std::string program;  // JournalEntry::program
  size_t streams_max = 1024;
  Duration alone_max = std::chrono::seconds(60);  // without a client; then the answer is given up
  // After a restart clients have to find out that there is a server again.
  Duration left_alone_max = std::chrono::minutes(10);
  std::shared_ptr<JournalCopies> copies = nullptr;
  std::function<bool()> may_speak = nullptr;  // ResumableStream
};

// Thread-safe. A thread of its own gives up what nobody came back for.
class StreamTable {
 public:
  // Throws Error as StreamJournal does.
  explicit StreamTable(StreamTableOptions options);
  ~StreamTable();  // gives nothing up: what is open is in the journal

  // The way back for a stream with this id. Answers that are whole and were sent make room for it. Null:
  // there are too many others, it goes without.
  std::shared_ptr<ResumableStream> open(ExchangePtr client, JournalEntry entry);
  // Nothing of it was sent and nothing will be.
  void forget(const std::string& id);
  // kNotFound: there is none of this id, or not for this owner; or as ResumableStream::attach().
  Status attach(const std::string& id, const std::string& owner, ExchangePtr client, uint64_t after);

  // What an earlier process left and this one can answer alike is kept for whoever asks for it; the rest is
  // forgotten. Once, before clients come. How many there are.
  size_t take_left();
  // The next of them that has to be answered again, once each: those that somebody waits for first, then
  // those whose answers were not sent whole, unless only the first are wanted. Answers that were are made
  // again only when somebody asks for them. Waits, `wait` at most; null: nothing came.
  std::shared_ptr<ResumableStream> next_left(Duration wait, bool without_client = true);
  // It could not be begun now: it comes again.
  void put_back(std::shared_ptr<ResumableStream> stream);
  size_t size() const;

 private:
  struct Row {
    std::shared_ptr<ResumableStream> stream;
    std::string owner;
    Duration alone_max{};
    bool sent = false;  // the journal knows
  };
  struct Left {
    std::shared_ptr<ResumableStream> stream;
    bool sent = false;
  };
  bool make_room();  // with the lock
  void sweep();

  const StreamTableOptions options_;
  StreamJournal journal_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable asked_for_;
  std::map<std::string, Row> rows_;
  std::vector<Left> left_;  // not begun again yet, oldest first
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace butterfly::server
