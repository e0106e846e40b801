// Values on their way out beside the thread that computes: compressed where that pays, then handed to links.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/training/value_packer.h"
#include "runtime/training/work_times.h"

namespace butterfly::runtime {

struct OutgoingValues {
  cluster::TrainMemberId to = 0;
  cluster::Epoch epoch = 0;
  uint64_t step = 0;
  cluster::ValuesHead head = {};
  std::span<const std::byte> values = {};
  size_t element_bytes = 4;
  std::shared_ptr<const void> keep = {};  // what `values` lie in
};

// Owns one thread and a bounded queue. push() is of one thread, the others may be called by any. Values go
// out in the order in which they came, but for those that are small and find nothing before them: they are
// sent by who pushes, since waking a thread would take longer.
class ValueSender {
 public:
  // A step has fewer, but for networks of more than a thousand buckets; who pushes waits.
  static constexpr size_t kQueueMax = 1024;
  static constexpr size_t kDirectBytesMax = 64 << 10;
  using Send = std::function<void(const OutgoingValues& values, ConstPieces pieces)>;
  // on_error: what came out of `send` or of compressing. Nothing is sent any more then.
  ValueSender(const cluster::PackingOptions& packing, Send send,
              std::function<void(std::exception_ptr)> on_error);
  ~ValueSender();

  // Waits while the queue is full.
  void push(OutgoingValues values);
  // What is of earlier epochs is not sent any more.
  void set_epoch(cluster::Epoch epoch);
  // Nothing more is sent; what is under way ends with its link.
  void stop();
  void join();

  struct Figures {
    SendingSeconds seconds;  // what is under way included
    uint64_t sent_bytes = 0;
    std::string packing;
  };
  Figures figures() const;
  SendingSeconds seconds() const;
  // When it sent since the last call; at most kTrainSpansMax.
  std::vector<std::pair<TimePoint, TimePoint>> take_spans();

 private:
  void run();
  // With busy_ set, without the lock.
  void send_one(const OutgoingValues& values);
  SendingSeconds seconds_now() const;

  const Send send_;
  const std::function<void(std::exception_ptr)> on_error_;
  ValuePacker packer_;  // of whoever has set busy_

  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::deque<OutgoingValues> queue_;
  cluster::Epoch epoch_ = 0;
  bool busy_ = false, stopped_ = false;
  SendingSeconds seconds_;                   // of what is done
  double SendingSeconds::*doing_ = nullptr;  // now,
  TimePoint since_;                          // since then
  uint64_t sent_bytes_ = 0;
  std::string packing_;
  std::vector<std::pair<TimePoint, TimePoint>> spans_;
  std::thread thread_;
};

}  // namespace butterfly::runtime
