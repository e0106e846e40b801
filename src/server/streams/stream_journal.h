// What streams were asked for, on disk until their answers have been taken: so that they can be gone on with
// after the server's process has ended, however it did.
//
// No token is written. The tokens of an answer depend on the request alone, so asking again gives the same
// ones; what has to survive is the question, with everything that was chosen for it (the seed, the id).
#pragma once
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"

namespace butterfly::server {

struct JournalEntry {
  std::string id = {};               // of the answer: "cmpl-…"
  int64_t created = 0;               // seconds since 1970
  std::string path = {};             // "/v1/completions"
  std::string body = {};             // as JSON, with the seed
  std::vector<int32_t> prompt = {};  // as the model reads it: templates may write the date into it
  std::string owner = {};            // who may take it up again
  std::string program = {};          // equal ones give equal answers: version and numerics id
  bool lines = false;                // its pieces are lines without numbers (ResumableStream)
  bool sent = false;                 // all of the answer was handed to a client, which may have lost its end
  bool operator==(const JournalEntry&) const = default;
};

// Others who hold the same journal. Called on the journal's thread, in the order of the file.
class JournalCopies {
 public:
  virtual ~JournalCopies() = default;
  virtual void journal_is(const std::string& all) = 0;  // instead of what was there
  // Returns when they have it too, or need not. kCancelled: this process does not speak for the cluster any
  // more.
  virtual Status journal_grew(const std::string& lines) = 0;
};

// A file of lines, each a JSON object: an entry, that its answer was sent, or its end. Readable by its owner
// only. A thread of its own writes what has come together and waits for the disk once for all of it.
// Thread-safe.
class StreamJournal {
 public:
  // Reads what an earlier process left, and makes the file anew with that. A last line that was not written
  // whole is passed over. Throws Error kIo, naming the file.
  explicit StreamJournal(std::filesystem::path file, std::shared_ptr<JournalCopies> copies = nullptr);
  ~StreamJournal();  // what has come is written first
  StreamJournal(const StreamJournal&) = delete;
  StreamJournal& operator=(const StreamJournal&) = delete;

  // Of the earlier process, oldest first.
  const std::vector<JournalEntry>& left() const { return left_; }

  // `durable` is called once, on the journal's thread: the entry is on disk and where the copies are, or why
  // it is not (a full disk, too many at once: kQueueFull; kCancelled: see JournalCopies).
  using Durable = std::function<void(const Status& status)>;
  void begin(JournalEntry entry, Durable durable);
  void sent(const std::string& id);  // JournalEntry::sent
  void end(const std::string& id);

  static constexpr size_t kQueueMax = 4096;
  static constexpr uint64_t kBytesBeforeAnew = 16 << 20;  // then the file is written anew without what ended

 private:
  enum class LineKind { kBegin, kSent, kEnd };
  struct Line {
    std::string text;
    std::string id;
    LineKind kind = LineKind::kEnd;
    Durable durable = nullptr;
  };
  void run();
  void take(std::vector<Line> lines);
  Status write_all(const std::string& lines);
  void write_anew();

  const std::filesystem::path path_;
  const std::shared_ptr<JournalCopies> copies_;
  std::vector<JournalEntry> left_;
  int file_ = -1;  // these: of the thread
  uint64_t bytes_ = 0;
  bool torn_ = false;                        // the file may end within a line
  std::map<std::string, std::string> open_;  // lines of entries that have not ended, by id

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Line> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace butterfly::server
