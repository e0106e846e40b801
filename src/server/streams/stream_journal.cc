#include "server/streams/stream_journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/log.h"

namespace butterfly::server {
namespace {

using JournalJson = nlohmann::ordered_json;

std::string sent_line_of(const std::string& id) { return json_text(JournalJson{{"sent", id}}) + "\n"; }

std::string line_of(const JournalEntry& entry) {
  const std::string begins = json_text(JournalJson{{"begin", entry.id},
                                                   {"created", entry.created},
                                                   {"path", entry.path},
                                                   {"body", entry.body},
                                                   {"prompt", entry.prompt},
                                                   {"owner", entry.owner},
                                                   {"program", entry.program},
                                                   {"lines", entry.lines}}) +
                             "\n";
  return entry.sent ? begins + sent_line_of(entry.id) : begins;
}

std::string end_line_of(const std::string& id) { return json_text(JournalJson{{"end", id}}) + "\n"; }

std::string text_at(const JournalJson& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<JournalEntry> read_left(const std::filesystem::path& path) {
  std::vector<JournalEntry> entries;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const JournalJson json = json_of_text_or_none<JournalJson>(line);
    if (!json.is_object()) continue;  // torn by the end of the process
    if (const std::string ended = text_at(json, "end"); !ended.empty()) {
      std::erase_if(entries, [&](const JournalEntry& entry) { return entry.id == ended; });
      continue;
    }
    if (const std::string sent = text_at(json, "sent"); !sent.empty()) {
      for (JournalEntry& entry : entries) entry.sent = entry.sent || entry.id == sent;
      continue;
    }
    JournalEntry entry{.id = text_at(json, "begin"),
                       .path = text_at(json, "path"),
                       .body = text_at(json, "body"),
                       .owner = text_at(json, "owner"),
                       .program = text_at(json, "program")};
    if (const auto created = json.find("created"); created != json.end() && created->is_number_integer())
      entry.created = created->get<int64_t>();
    if (const auto prompt = json.find("prompt"); prompt != json.end() && prompt->is_array())
      for (const JournalJson& token : *prompt)
        if (token.is_number_integer()) entry.prompt.push_back(token.get<int32_t>());
    entry.lines = json.value("lines", JournalJson(false)) == JournalJson(true);
    if (!entry.id.empty()) entries.push_back(std::move(entry));
  }
  return entries;
}

Status io_status(const std::filesystem::path& path, const char* what) {
  return {Errc::kIo, fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno))};
}

// So that the new name outlives the machine's power. Where that fails the old file is there, which has all
// too.
void sync_folder(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  (void)::fsync(file);
  ::close(file);
}

}  // namespace

StreamJournal::StreamJournal(std::filesystem::path file, std::shared_ptr<JournalCopies> copies)
    : path_(std::move(file)), copies_(std::move(copies)), left_(read_left(path_)) {
  for (const JournalEntry& entry : left_) open_[entry.id] = line_of(entry);
  write_anew();
  if (file_ < 0) io_status(path_, "cannot be written").or_throw();
  thread_ = std::thread([this] { run(); });
}

StreamJournal::~StreamJournal() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  if (file_ >= 0) ::close(file_);
}

void StreamJournal::begin(JournalEntry entry, Durable durable) {
  Line line{.text = line_of(entry), .id = entry.id, .kind = LineKind::kBegin, .durable = std::move(durable)};
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() < kQueueMax) {
      queue_.push_back(std::move(line));
      changed_.notify_one();
      return;
    }
  }
  line.durable({Errc::kQueueFull, "the journal has too much to write"});
}

void StreamJournal::sent(const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (queue_.size() >= kQueueMax) return;  // it is made again for nobody, at worst
  queue_.push_back({.text = sent_line_of(id), .id = id, .kind = LineKind::kSent});
  changed_.notify_one();
}

void StreamJournal::end(const std::string& id) {
  const std::lock_guard lock(mutex_);
  queue_.push_back({.text = end_line_of(id), .id = id});  // as many as there were beginnings
  changed_.notify_one();
}

void StreamJournal::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::vector<Line> lines = std::exchange(queue_, {});
    lock.unlock();
    take(std::move(lines));
    lock.lock();
  }
}

// All that came while the disk was waited for, in one go.
void StreamJournal::take(std::vector<Line> lines) {
  std::string text;
  for (const Line& line : lines) {
    const auto open = open_.find(line.id);
    if (line.kind == LineKind::kBegin) {
      open_[line.id] = line.text;
    } else if (open == open_.end()) {
      continue;  // it never came to disk
    } else if (line.kind == LineKind::kSent) {
      open->second += line.text;
    } else {
      open_.erase(open);
    }
    text += line.text;
  }
  Status status = text.empty() ? Status() : write_all(text);
  if (status && copies_ != nullptr && !text.empty()) {
    status = copies_->journal_grew(text);
    // It is on this disk: whoever reads it next leads.
    if (!status) {
      for (const Line& line : lines)
        if (line.durable) line.durable(status);
      return;
    }
  }
  if (!status) {
    log_warn("streams begun now cannot be gone on with after a restart: {}", status.text());
    for (const Line& line : lines)
      if (line.kind == LineKind::kBegin) open_.erase(line.id);
  }
  for (const Line& line : lines)
    if (line.durable) line.durable(status);
  if (bytes_ > kBytesBeforeAnew || !status) write_anew();
}

Status StreamJournal::write_all(const std::string& lines) {
  const std::string text = torn_ ? "\n" + lines : lines;
  size_t done = 0;
  torn_ = true;
  while (done < text.size()) {
    const ssize_t wrote = ::write(file_, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return io_status(path_, "cannot be written");
    done += static_cast<size_t>(wrote);
  }
  bytes_ += text.size();
  torn_ = false;
  return ::fdatasync(file_) == 0 ? Status() : io_status(path_, "is not on disk");
}

// Beside the old one, then in its place: at no time is there none. Where that fails the old one goes on.
void StreamJournal::write_anew() {
  const std::filesystem::path beside = path_.string() + ".new";
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return;
  const int before = std::exchange(file_, file);
  const uint64_t bytes_before = std::exchange(bytes_, 0);
  const bool torn_before = std::exchange(torn_, false);
  std::string text;
  for (const auto& [id, line] : open_) text += line;
  if (write_all(text) && ::rename(beside.c_str(), path_.c_str()) == 0) {
    if (before >= 0) ::close(before);
    sync_folder(path_);
    if (copies_ != nullptr) copies_->journal_is(text);
    return;
  }
  ::close(file);
  ::unlink(beside.c_str());
  file_ = before;
  bytes_ = bytes_before;
  torn_ = torn_before;
}

}  // namespace butterfly::server
