// Events by time, equal times in the order they were added: a heap with four children per node.
#pragma once
#include <cstdint>
#include <vector>

namespace butterfly::cluster {

struct SimEvent {
  double time_s;
  uint64_t order;
  uint32_t kind;
  uint32_t stage;
  uint32_t job;
  uint32_t version;
  bool before(const SimEvent& other) const {
    return time_s < other.time_s || (time_s == other.time_s && order < other.order);
  }
};

// Gives events by time, and in the order of push() where times are equal, so that runs repeat. Of one thread.
class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  void push(double time_s, uint32_t kind, uint32_t stage, uint32_t job, uint32_t version) {
    const SimEvent event{time_s, next_++, kind, stage, job, version};
    size_t at = heap_.size();
    heap_.push_back(event);
    while (at > 0 && event.before(heap_[(at - 1) / 4])) {
      heap_[at] = heap_[(at - 1) / 4];
      at = (at - 1) / 4;
    }
    heap_[at] = event;
  }
  SimEvent pop() {
    const SimEvent top = heap_.front(), last = heap_.back();
    heap_.pop_back();
    size_t at = 0;
    while (4 * at + 1 < heap_.size()) {
      size_t least = 4 * at + 1;
      for (size_t child = least + 1; child < heap_.size() && child <= 4 * at + 4; ++child)
        if (heap_[child].before(heap_[least])) least = child;
      if (!heap_[least].before(last)) break;
      heap_[at] = heap_[least];
      at = least;
    }
    if (!heap_.empty()) heap_[at] = last;
    return top;
  }

 private:
  std::vector<SimEvent> heap_;
  uint64_t next_ = 0;
};

}  // namespace butterfly::cluster
