#include "server/streams/stream_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace butterfly::server {
namespace {

constexpr std::chrono::milliseconds kSweep{500};

}  // namespace

StreamTable::StreamTable(StreamTableOptions options)
    : options_(std::move(options)),
      journal_(options_.journal, options_.copies),
      thread_([this] { sweep(); }) {}

StreamTable::~StreamTable() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

std::shared_ptr<ResumableStream> StreamTable::open(ExchangePtr client, JournalEntry entry) {
  std::shared_ptr<ResumableStream> stream;
  {
    const std::lock_guard lock(mutex_);
    if (rows_.size() >= options_.streams_max && !make_room()) return nullptr;
    HttpRequest request = client->request();
    stream = std::make_shared<ResumableStream>(entry.id, entry.created, std::move(request), client,
                                               options_.may_speak);
    if (entry.lines) stream->set_lines();
    rows_[entry.id] = {stream, entry.owner, options_.alone_max};
  }
  stream->listen_to_client();
  entry.program = options_.program;
  journal_.begin(std::move(entry), [stream](const Status& status) {
    if (status.code() != Errc::kCancelled) stream->release();
  });
  return stream;
}

// The one that was sent first goes: its client has had the most time to come back for its last bytes.
bool StreamTable::make_room() {
  auto oldest = rows_.end();
  TimePoint since;
  for (auto it = rows_.begin(); it != rows_.end(); ++it) {
    const ResumableStream::View view = it->second.stream->view();
    if (!view.ended || !view.alone_since || (oldest != rows_.end() && since <= *view.alone_since)) continue;
    oldest = it;
    since = *view.alone_since;
  }
  if (oldest == rows_.end()) return false;
  journal_.end(oldest->first);
  rows_.erase(oldest);
  return true;
}

void StreamTable::forget(const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (rows_.erase(id) > 0) journal_.end(id);
}

Status StreamTable::attach(const std::string& id, const std::string& owner, ExchangePtr client,
                           uint64_t after) {
  std::shared_ptr<ResumableStream> stream;
  {
    const std::lock_guard lock(mutex_);
    const auto found = rows_.find(id);
    if (found == rows_.end() || found->second.owner != owner)
      return {Errc::kNotFound, fmt::format("no stream '{:.80}' can be taken up here", id)};
    found->second.alone_max = options_.alone_max;
    stream = found->second.stream;
  }
  Status status = stream->attach(std::move(client), after);
  const std::lock_guard lock(mutex_);
  asked_for_.notify_all();
  return status;
}

size_t StreamTable::take_left() {
  const std::lock_guard lock(mutex_);
  for (const JournalEntry& entry : journal_.left()) {
    if (rows_.contains(entry.id)) continue;
    if (entry.program != options_.program || rows_.size() >= options_.streams_max) {
      log_warn("stream {} is not gone on with: {}", entry.id,
               entry.program != options_.program ? "this program might answer otherwise" : "too many");
      journal_.end(entry.id);
      continue;
    }
    HttpRequest request;
    request.method = "POST";
    request.path = entry.path;
    request.body = entry.body;
    auto stream = std::make_shared<ResumableStream>(entry.id, entry.created, std::move(request), nullptr,
                                                    options_.may_speak);
    stream->set_prompt(entry.prompt);
    if (entry.lines) stream->set_lines();
    stream->release();
    rows_[entry.id] = {stream, entry.owner, options_.left_alone_max, entry.sent};
    left_.push_back({std::move(stream), entry.sent});
  }
  return left_.size();
}

std::shared_ptr<ResumableStream> StreamTable::next_left(Duration wait, bool without_client) {
  std::unique_lock lock(mutex_);
  auto next = left_.end();
  asked_for_.wait_for(lock, wait, [&] {
    std::erase_if(left_, [](const Left& row) { return row.stream->gone(); });
    next = std::ranges::find_if(left_, [](const Left& row) { return !row.stream->view().alone_since; });
    if (next == left_.end() && without_client) next = std::ranges::find(left_, false, &Left::sent);
    return next != left_.end();
  });
  if (next == left_.end()) return nullptr;
  std::shared_ptr<ResumableStream> stream = std::move(next->stream);
  left_.erase(next);
  return stream;
}

void StreamTable::put_back(std::shared_ptr<ResumableStream> stream) {
  const std::lock_guard lock(mutex_);
  left_.insert(left_.begin(), {std::move(stream), false});
}

size_t StreamTable::size() const {
  const std::lock_guard lock(mutex_);
  return rows_.size();
}

// A whole answer is kept as long as one that runs: its client may have lost the last bytes.
void StreamTable::sweep() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_.wait_for(lock, kSweep);
    std::vector<std::shared_ptr<ResumableStream>> over;
    for (auto it = rows_.begin(); it != rows_.end();) {
      if (options_.may_speak) it->second.stream->flush();
      const ResumableStream::View view = it->second.stream->view();
      if (view.sent && !std::exchange(it->second.sent, true)) journal_.sent(it->first);
      if (!view.alone_since || system_now() - *view.alone_since < it->second.alone_max) {
        ++it;
        continue;
      }
      over.push_back(std::move(it->second.stream));
      journal_.end(it->first);
      it = rows_.erase(it);
    }
    lock.unlock();
    for (const auto& stream : over) stream->give_up();
    lock.lock();
  }
}

}  // namespace butterfly::server
