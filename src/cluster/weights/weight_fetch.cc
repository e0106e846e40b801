#include "cluster/weights/weight_fetch.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "base/log.h"
#include "cluster/transport/message.h"
#include "cluster/weights/throttle.h"
#include "cluster/weights/weight_request.h"

namespace butterfly::cluster {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(200);  // between looks at `cancelled`
constexpr Duration kSendMax = std::chrono::seconds(30);

bool is_cancelled(const FetchOptions& options) {
  return options.cancelled != nullptr && options.cancelled->load(std::memory_order_relaxed);
}

// The head of the answer to request `number`, of `expected` bytes or none.
Result<uint32_t> await_answer(Link& link, uint64_t number, std::optional<size_t> expected, size_t bytes_max,
                              const FetchOptions& options) {
  const Deadline deadline(SystemClock::instance(), options.answer_max);
  while (true) {
    if (is_cancelled(options)) return Status(Errc::kCancelled, "the fetch was cancelled");
    const auto head = link.receive_head(std::min(kLook, deadline.remaining()));
    if (!head && head.status().code() == Errc::kTimeout && !deadline.expired()) continue;
    if (!head) return head.status();
    if (head->kind != MessageKind::kWeights || head->step != number || head->bytes > bytes_max ||
        (expected && head->bytes != 0 && head->bytes != *expected))
      return Status(Errc::kCorrupt,
                    fmt::format("answered kind {}, number {}, {} bytes; expected number {}, {} bytes",
                                static_cast<int>(head->kind), head->step, head->bytes, number,
                                expected.value_or(bytes_max)));
    return head->bytes;
  }
}

// Which chunks are still to be had, and who is on which. All peers' threads share one.
class Board {
 public:
  Board(const Manifest& manifest, const ChunkSet& todo, const FetchOptions& options)
      : state_(todo.size(), State::kDone), options_(options) {
    for (size_t i = 0; i < todo.size(); ++i)
      if (todo[i]) {
        state_[i] = State::kOpen;
        ++open_;
        total_ += manifest.place(i).bytes;
      }
  }

  // The next chunk that this peer has, from `from` on and around; blocks while others may still give one
  // back. Nothing: there is none, now or later. With `wait` false: none now.
  std::optional<size_t> take(const ChunkSet& has, size_t from, bool wait) {
    std::unique_lock lock(mutex_);
    while (true) {
      if (failed_ || (open_ == 0 && taken_ == 0)) return std::nullopt;
      for (size_t k = 0; k < state_.size(); ++k) {
        const size_t i = (from + k) % state_.size();
        if (state_[i] != State::kOpen || !has[i]) continue;
        state_[i] = State::kTaken;
        --open_;
        ++taken_;
        return i;
      }
      if (!wait || taken_ == 0) return std::nullopt;
      changed_.wait_for(lock, kLook);
    }
  }

  void give_back(size_t chunk) {
    const std::lock_guard lock(mutex_);
    state_[chunk] = State::kOpen;
    ++open_;
    --taken_;
    changed_.notify_all();
  }

  void done(size_t chunk) {
    const std::lock_guard lock(mutex_);
    state_[chunk] = State::kDone;
    --taken_;
    changed_.notify_all();
  }

  // What has to come again because it was wrong does not count twice.
  void moved(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    moved_bytes_ = std::min(total_, moved_bytes_ + bytes);
    if (options_.progress) options_.progress(moved_bytes_, total_);
  }

  // Something that no other peer can mend: the disk, or a cancellation.
  void stop(Status why) {
    const std::lock_guard lock(mutex_);
    if (!failed_) failed_ = std::move(why);
    changed_.notify_all();
  }

  std::optional<Status> failed() const {
    const std::lock_guard lock(mutex_);
    return failed_;
  }
  size_t left() const {
    const std::lock_guard lock(mutex_);
    return open_ + taken_;
  }

 private:
  enum class State : uint8_t { kOpen, kTaken, kDone };
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<State> state_;
  const FetchOptions& options_;
  size_t open_ = 0, taken_ = 0;
  uint64_t moved_bytes_ = 0, total_ = 0;
  std::optional<Status> failed_;
};

// One peer's thread.
class PeerFetch {
 public:
  PeerFetch(ChunkStore& store, Board& board, const WeightPeer& peer, size_t from, Throttle& throttle,
            const FetchOptions& options)
      : store_(store), board_(board), peer_(peer), from_(from), throttle_(throttle), options_(options) {
    report_.name = peer.name;
  }

  void run() {
    for (size_t i = 0; i < options_.opens_max && board_.left() > 0 && !board_.failed(); ++i) {
      if (i > 0) SystemClock::instance().sleep_for(options_.reopen_wait * static_cast<int64_t>(i));
      auto link = peer_.open();
      Status status = link ? work(**link) : link.status();
      if (link) (*link)->close();
      give_all_back();
      if (status) return;
      report_.problem = status.text();
      if (status.code() == Errc::kCancelled) return board_.stop(std::move(status));
      if (report_.wrong >= options_.wrong_max) return;
    }
  }

  const FetchReport::Peer& report() const { return report_; }

 private:
  // Until there is nothing left for this peer (ok), or the link breaks.
  Status work(Link& link) {
    if (Status status = ask_have(link); !status) return status;
    while (true) {
      while (asked_.size() < ahead()) {
        const auto piece = next_piece();
        if (!piece) break;
        asked_.push_back(*piece);
        throttle_.take(piece->bytes);
        if (Status status = send_request(link,
                                         {WeightRequest::Kind::kChunk, store_.manifest().id(),
                                          static_cast<uint32_t>(piece->chunk), piece->offset, piece->bytes},
                                         ++asked_count_, kSendMax);
            !status)
          return status;
      }
      if (asked_.empty()) return {};
      if (Status status = receive_piece(link); !status) return status;
    }
  }

  // Whoever waits for the right to ask does not take what has come: under a bound, few are under way.
  size_t ahead() const {
    return options_.bytes_per_s == 0 ? options_.ahead : std::min<size_t>(options_.ahead, 2);
  }

  // Pieces of a chunk are asked for, and answered, one after the other, and a chunk after the other.
  struct Piece {
    size_t chunk = 0;
    uint32_t offset = 0, bytes = 0;
    bool last = false;  // of its chunk
  };

  std::optional<Piece> next_piece() {
    if (!asking_) {
      const auto chunk = board_.take(has_, from_, asked_.empty());
      if (!chunk) return std::nullopt;
      asking_ = Piece{.chunk = *chunk};
      from_ = *chunk;
    }
    Piece piece = *asking_;
    const uint32_t left = store_.manifest().place(piece.chunk).bytes - piece.offset;
    piece.bytes = std::min(options_.piece_bytes, left);
    piece.last = piece.bytes == left;
    if (piece.last) {
      asking_.reset();
    } else {
      asking_->offset += piece.bytes;
    }
    return piece;
  }

  void give_all_back() {
    for (const Piece& piece : asked_)
      if (piece.last) board_.give_back(piece.chunk);
    if (asking_) board_.give_back(asking_->chunk);
    asked_.clear();
    asking_.reset();
    asked_count_ = answered_count_ = 0;
  }

  Status ask_have(Link& link) {
    const size_t count = store_.manifest().chunk_count();
    if (Status status =
            send_request(link, {WeightRequest::Kind::kHave, store_.manifest().id(), 0}, 0, kSendMax);
        !status)
      return status;
    const size_t expected = (count + 7) / 8;
    const auto bytes = await_answer(link, 0, expected, expected, options_);
    if (!bytes) return bytes.status();
    std::vector<std::byte> bits(*bytes);
    if (Status status = link.receive_body(bits, options_.answer_max); !status) return status;
    ChunkSet has(count, false);
    for (size_t i = 0; !bits.empty() && i < count; ++i)
      has[i] = (bits[i / 8] & static_cast<std::byte>(1 << (i % 8))) != std::byte{0} &&
               (wrong_.empty() || !wrong_[i]);
    has_ = std::move(has);
    if (bits.empty()) report_.problem = "does not have the model";
    return {};
  }

  Status receive_piece(Link& link) {
    const Piece piece = asked_.front();
    const auto bytes = await_answer(link, ++answered_count_, piece.bytes, piece.bytes, options_);
    if (!bytes) return bytes.status();
    body_.resize(store_.manifest().place(piece.chunk).bytes);
    if (Status status =
            link.receive_body(std::span(body_).subspan(piece.offset, *bytes), options_.answer_max);
        !status)
      return status;
    asked_.pop_front();
    if (*bytes == 0) has_[piece.chunk] = false;  // it had the chunk a moment ago
    if (*bytes > 0) board_.moved(*bytes);
    if (!piece.last) return {};
    if (!has_[piece.chunk]) {
      board_.give_back(piece.chunk);
      return {};
    }
    return finish_chunk(piece.chunk);
  }

  Status finish_chunk(size_t chunk) {
    Status status = store_.put(chunk, body_);
    if (status) {
      ++report_.chunks;
      report_.bytes += body_.size();
      board_.done(chunk);
      return {};
    }
    board_.give_back(chunk);
    if (status.code() != Errc::kCorrupt) {
      board_.stop(status);
      return status;
    }
    log_warn("{}: {}", peer_.name, status.text());
    has_[chunk] = false;
    if (wrong_.empty()) wrong_ = store_.manifest().none();
    wrong_[chunk] = true;
    report_.problem = status.text();
    return ++report_.wrong >= options_.wrong_max ? status : Status();
  }

  ChunkStore& store_;
  Board& board_;
  const WeightPeer& peer_;
  size_t from_;  // where it looks for the next chunk
  Throttle& throttle_;
  const FetchOptions& options_;
  ChunkSet has_, wrong_;
  std::optional<Piece> asking_;  // the chunk that is being asked for, from its next piece on
  std::deque<Piece> asked_;
  uint64_t asked_count_ = 0, answered_count_ = 0;  // on this link
  std::vector<std::byte> body_;
  FetchReport::Peer report_;
};

FetchReport sum_of(std::vector<FetchReport::Peer> peers) {
  FetchReport report;
  for (const FetchReport::Peer& peer : peers) {
    report.chunks += peer.chunks;
    report.bytes += peer.bytes;
    report.wrong += peer.wrong;
  }
  report.peers = std::move(peers);
  return report;
}

std::string problems_of(const std::vector<FetchReport::Peer>& peers) {
  std::string text;
  for (const FetchReport::Peer& peer : peers)
    text += fmt::format("; {}: {}", peer.name, peer.problem.empty() ? "has none of them" : peer.problem);
  return peers.empty() ? "; nobody to ask" : text;
}

Result<Manifest> manifest_from(const Digest& id, const WeightPeer& peer, const FetchOptions& options) {
  auto link = peer.open();
  if (!link) return link.status();
  if (Status status = send_request(**link, {WeightRequest::Kind::kManifest, id, 0}, 0, kSendMax); !status)
    return status;
  const auto bytes = await_answer(**link, 0, std::nullopt, Manifest::kBytesMax, options);
  if (!bytes) return bytes.status();
  if (*bytes == 0) return Status(Errc::kNotFound, "does not have the model");
  std::vector<std::byte> body(*bytes);
  if (Status status = (*link)->receive_body(body, options.answer_max); !status) return status;
  if (digest_of(body) != id) return Status(Errc::kCorrupt, "sent another model's manifest");
  return Manifest::parse(body);
}

}  // namespace

Result<Manifest> fetch_manifest(const Digest& id, const std::vector<WeightPeer>& peers,
                                const FetchOptions& options) {
  std::vector<FetchReport::Peer> said;
  for (const WeightPeer& peer : peers) {
    auto manifest = manifest_from(id, peer, options);
    if (manifest || manifest.status().code() == Errc::kCancelled) return manifest;
    said.push_back({.name = peer.name, .problem = manifest.status().text()});
  }
  return Status(Errc::kNotFound, fmt::format("nobody gave the manifest of model {:.12}{}", digest_to_hex(id),
                                             problems_of(said)));
}

Result<FetchReport> fetch_chunks(ChunkStore& store, const ChunkSet& wanted,
                                 const std::vector<WeightPeer>& peers, const FetchOptions& options) {
  const ChunkSet missing = store.missing(wanted);
  Board board(store.manifest(), missing, options);
  const size_t count = board.left();
  if (count == 0) return FetchReport();
  Throttle throttle(options.bytes_per_s);
  std::deque<PeerFetch> fetches;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < peers.size(); ++i)
    fetches.emplace_back(store, board, peers[i], i * missing.size() / peers.size(), throttle, options);
  for (PeerFetch& fetch : fetches) threads.emplace_back([&fetch] { fetch.run(); });
  for (std::thread& thread : threads) thread.join();
  std::vector<FetchReport::Peer> reports;
  for (const PeerFetch& fetch : fetches) reports.push_back(fetch.report());
  if (Status status = store.flush(); !status) return status;
  if (const auto failed = board.failed()) return *failed;
  if (board.left() > 0)
    return Status(Errc::kPeerLost, fmt::format("{} of {} chunks could not be had{}", board.left(), count,
                                               problems_of(reports)));
  return sum_of(std::move(reports));
}

}  // namespace butterfly::cluster
