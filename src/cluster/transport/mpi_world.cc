#include "cluster/transport/mpi_world.h"

#include <fmt/format.h>
#define OMPI_SKIP_MPICXX 1  // classes that no library here has
#include <mpi.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/secret.h"

namespace butterfly::cluster {
namespace {

constexpr int kEndTag = 0;  // channels begin behind it
constexpr Duration kLookAgain = std::chrono::microseconds(20);
constexpr int kLooksMax = 64;  // before that
constexpr Duration kLastSends = std::chrono::seconds(2);

// Messages of links are not larger, so that none of them waits for the receiver's answer before it leaves: a
// sender that computes would not hear it.
constexpr const char* kEagerBytes = "40960";

bool has(const char* name) { return std::getenv(name) != nullptr; }

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int size = 0;
  MPI_Error_string(code, text, &size);
  fail(Errc::kIo, "[mpi] {}: {}", what, std::string_view(text, static_cast<size_t>(size)));
}

// What MPI still reads or writes after its owner is gone. One thread, which sleeps while there is nothing,
// keeps it moving: MPI moves only while somebody calls it.
class Leftovers {
 public:
  ~Leftovers() { stop(); }

  void add(MPI_Request request, PooledArray<std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    rows_.push_back({request, std::move(bytes)});
    changed_.notify_one();
  }

  // Waits a moment for what is under way.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct Row {
    MPI_Request request;
    PooledArray<std::byte> bytes;
  };

  bool sweep() {
    bool moved = false;
    for (auto row = rows_.begin(); row != rows_.end();) {
      int done = 0;
      if (MPI_Test(&row->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) done = 1;
      row = done ? rows_.erase(row) : std::next(row);
      moved = moved || done;
    }
    return moved;
  }

  void run() {
    std::unique_lock lock(mutex_);
    int idle = 0;
    std::optional<Deadline> last;
    for (;;) {
      changed_.wait(lock, [&] { return over_ || !rows_.empty(); });
      if (over_ && !last) last = Deadline(SystemClock::instance(), kLastSends);
      if (over_ && (rows_.empty() || last->expired())) return;
      idle = sweep() ? 0 : idle + 1;
      lock.unlock();
      if (idle > kLooksMax)
        SystemClock::instance().sleep_for(kLookAgain);
      else
        std::this_thread::yield();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Row> rows_;
  bool over_ = false;
  std::thread thread_;
};

// Receives are posted before anything comes, so that it goes where it is wanted.
class Inbox final : public MpiInbox {
 public:
  Inbox(MPI_Comm comm, int rank, int tag, size_t bytes, size_t count, std::shared_ptr<Leftovers> leftovers)
      : comm_(comm), rank_(rank), tag_(tag), leftovers_(std::move(leftovers)) {
    for (size_t i = 0; i < count; ++i) post(PooledArray<std::byte>(bytes));
  }
  ~Inbox() override {
    for (Slot& slot : slots_) {
      int done = came_ && &slot == &slots_.front();
      if (!done) {
        MPI_Cancel(&slot.request);
        MPI_Test(&slot.request, &done, MPI_STATUS_IGNORE);
      }
      if (!done) leftovers_->add(slot.request, std::move(slot.bytes));
    }
  }

  std::optional<std::span<const std::byte>> look() override {
    Slot& first = slots_.front();
    if (!came_) {
      int done = 0;
      MPI_Status status;
      check(MPI_Test(&first.request, &done, &status), "receive");
      if (!done) return std::nullopt;
      int count = 0;
      check(MPI_Get_count(&status, MPI_BYTE, &count), "receive");
      came_ = true;
      size_ = static_cast<size_t>(count);
    }
    return std::span<const std::byte>(first.bytes.data(), size_);
  }

  void take() override {
    BF_CHECK(came_);
    came_ = false;
    PooledArray<std::byte> bytes = std::move(slots_.front().bytes);
    slots_.pop_front();
    post(std::move(bytes));
  }

 private:
  struct Slot {
    MPI_Request request;
    PooledArray<std::byte> bytes;
  };
  void post(PooledArray<std::byte> bytes) {
    Slot& slot = slots_.emplace_back(Slot{MPI_REQUEST_NULL, std::move(bytes)});
    check(MPI_Irecv(slot.bytes.data(), static_cast<int>(slot.bytes.size()), MPI_BYTE, rank_, tag_, comm_,
                    &slot.request),
          "receive");
  }

  const MPI_Comm comm_;
  const int rank_, tag_;
  const std::shared_ptr<Leftovers> leftovers_;
  std::deque<Slot> slots_;  // in the order in which they are filled
  bool came_ = false;       // the first one is
  size_t size_ = 0;
};

class Outbox final : public MpiOutbox {
 public:
  Outbox(MPI_Comm comm, int rank, int tag, std::shared_ptr<Leftovers> leftovers,
         std::atomic<uint64_t>& counter)
      : comm_(comm), rank_(rank), tag_(tag), leftovers_(std::move(leftovers)), counter_(counter) {}

  void send(PooledArray<std::byte> bytes) override {
    counter_.fetch_add(bytes.size(), std::memory_order_relaxed);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, rank_, tag_, comm_, &request),
          "send");
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "send");
    if (!done) leftovers_->add(request, std::move(bytes));
  }

 private:
  const MPI_Comm comm_;
  const int rank_, tag_;
  const std::shared_ptr<Leftovers> leftovers_;
  std::atomic<uint64_t>& counter_;
};

class World final : public MpiWorld {
 public:
  World() {
    ::setenv("OMPI_MCA_btl_vader_eager_limit", kEagerBytes, 0);
    int provided = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
      fail(Errc::kUnsupported, "mpi: cannot be initialised");
    if (provided < MPI_THREAD_MULTIPLE)
      fail(Errc::kUnsupported, "mpi: the library was built without MPI_THREAD_MULTIPLE, which links need");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "init");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "init");
    check(MPI_Comm_rank(comm_, &rank_), "init");
    check(MPI_Comm_size(comm_, &size_), "init");
    void* most = nullptr;
    int there = 0;
    check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &there), "init");
    const int tag_max = there ? *static_cast<int*>(most) : 32767;  // as much as MPI promises
    channels_ = static_cast<uint32_t>(tag_max) / kTagsPerChannel - 1;
    id_ = std::stoull(broadcast(random_hex(15)), nullptr, 16) | 1;
    if (rank_ > 0) check(MPI_Irecv(&end_byte_, 1, MPI_BYTE, 0, kEndTag, comm_, &end_), "init");
  }

  size_t rank() const override { return static_cast<size_t>(rank_); }
  size_t size() const override { return static_cast<size_t>(size_); }
  uint64_t id() const override { return id_; }
  uint64_t bytes_sent() const override { return bytes_sent_.load(std::memory_order_relaxed); }
  uint32_t channels() const override { return channels_; }
  uint32_t next_channel() override {
    return 1 + next_channel_.fetch_add(1, std::memory_order_relaxed) % (channels_ - 1);
  }

  std::string library() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int size = 0;
    MPI_Get_library_version(text, &size);
    std::string name(text, static_cast<size_t>(size));
    name = name.substr(0, name.find_first_of(",\n"));
    return name.starts_with("Open MPI v") ? "Open MPI " + name.substr(10) : name;
  }

  std::string broadcast(const std::string& of_first) override {
    uint64_t size = of_first.size();
    check(MPI_Bcast(&size, sizeof size, MPI_BYTE, 0, comm_), "broadcast");
    std::string text = rank_ == 0 ? of_first : std::string(size, '\0');
    check(MPI_Bcast(text.data(), static_cast<int>(text.size()), MPI_BYTE, 0, comm_), "broadcast");
    return text;
  }

  std::vector<std::string> gather(const std::string& mine) override {
    int size = static_cast<int>(mine.size());
    std::vector<int> sizes(this->size()), begins(this->size() + 1);
    check(MPI_Allgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, comm_), "gather");
    for (size_t i = 0; i < sizes.size(); ++i) begins[i + 1] = begins[i] + sizes[i];
    std::string all(static_cast<size_t>(begins.back()), '\0');
    check(
        MPI_Allgatherv(mine.data(), size, MPI_BYTE, all.data(), sizes.data(), begins.data(), MPI_BYTE, comm_),
        "gather");
    std::vector<std::string> texts;
    for (size_t i = 0; i < sizes.size(); ++i)
      texts.push_back(all.substr(static_cast<size_t>(begins[i]), static_cast<size_t>(sizes[i])));
    return texts;
  }

  void tell_end() override {
    for (int other = 1; other < size_; ++other)
      check(MPI_Send(&end_byte_, 1, MPI_BYTE, other, kEndTag, comm_), "end");
  }

  bool end_told() override {
    if (end_ == MPI_REQUEST_NULL) return rank_ > 0;
    int done = 0;
    check(MPI_Test(&end_, &done, MPI_STATUS_IGNORE), "end");
    return done != 0;
  }

  void finish() override {
    leftovers_->stop();
    MPI_Finalize();
  }

  void abort(int code) override {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

  std::unique_ptr<MpiInbox> inbox(size_t rank, uint32_t tag, size_t bytes, size_t count) override {
    return std::make_unique<Inbox>(comm_, static_cast<int>(rank), static_cast<int>(tag), bytes, count,
                                   leftovers_);
  }
  std::unique_ptr<MpiOutbox> outbox(size_t rank, uint32_t tag) override {
    return std::make_unique<Outbox>(comm_, static_cast<int>(rank), static_cast<int>(tag), leftovers_,
                                    bytes_sent_);
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  uint64_t id_ = 0;
  uint32_t channels_ = 0;
  std::atomic<uint32_t> next_channel_{0};
  std::atomic<uint64_t> bytes_sent_{0};
  const std::shared_ptr<Leftovers> leftovers_ = std::make_shared<Leftovers>();
  char end_byte_ = 0;
  MPI_Request end_ = MPI_REQUEST_NULL;
};

}  // namespace

std::string MpiWorld::why_not() {
  // Of Open MPI's own launcher, and of Slurm's with PMIx or PMI-2.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (has(name)) return {};
  return "mpi: only processes that mpirun or 'srun --mpi=pmix' started are ranks of a job";
}

std::shared_ptr<MpiWorld> MpiWorld::join() {
  if (const std::string why = why_not(); !why.empty()) fail(Errc::kUnsupported, "{}", why);
  return std::make_shared<World>();
}

}  // namespace butterfly::cluster
