#include "graph/placement.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "base/checked.h"
#include "base/rng.h"

namespace butterfly::graph {
namespace {

using Order = std::vector<uint32_t>;

// The buffers in units that fit 32 bits, and the packer that puts them down in a given order.
class Packer {
 public:
  explicit Packer(std::span<const BufferLife> buffers);

  // False when the work was used up or the height passed `height_max`: offsets are then not valid.
  bool pack(const Order& order, uint32_t height_max, uint64_t work_max);

  uint32_t height() const { return height_; }
  uint64_t work() const { return work_; }
  uint32_t size(uint32_t buffer) const { return sizes_[buffer]; }
  uint32_t offset(uint32_t buffer) const { return offsets_[buffer]; }
  uint32_t top(uint32_t buffer) const { return offsets_[buffer] + sizes_[buffer]; }
  size_t unit() const { return unit_; }

 private:
  // Placed buffers, sorted by offset. Lives are compared 16 at a time, so the arrays end with room for a
  // whole group of buffers that never live.
  static constexpr size_t kGroup = 16;
  void insert(uint32_t first, uint32_t last, uint32_t begin, uint32_t end);
  uint32_t lowest_place(uint32_t first, uint32_t last, uint32_t size);

  std::span<const BufferLife> buffers_;
  size_t unit_ = kBufferAlign;
  std::vector<uint32_t> sizes_, offsets_;
  size_t placed_ = 0;
  std::vector<uint32_t> firsts_, lasts_, begins_, ends_;
  uint32_t height_ = 0;
  uint64_t work_ = 0;
};

Packer::Packer(std::span<const BufferLife> buffers) : buffers_(buffers) {
  // Larger units than 64 bytes only when the sum of all sizes passes 256 GiB.
  size_t sum = 0;
  for (const BufferLife& buffer : buffers) sum += round_up(buffer.bytes, kBufferAlign);
  while (sum / unit_ + buffers.size() >= UINT32_MAX) unit_ *= 2;
  for (const BufferLife& buffer : buffers)
    sizes_.push_back(static_cast<uint32_t>(ceil_div(buffer.bytes, unit_)));
  offsets_.resize(buffers.size());
  for (auto* array : {&firsts_, &lasts_, &begins_, &ends_}) array->resize(buffers.size() + kGroup);
}

uint32_t Packer::lowest_place(uint32_t first, uint32_t last, uint32_t size) {
  uint32_t at = 0;
  for (size_t group = 0; group < placed_; group += kGroup) {
    uint8_t together[kGroup];  // a fixed count without branches, which compilers turn into vector compares
    for (size_t k = 0; k < kGroup; ++k)
      together[k] = static_cast<uint8_t>((firsts_[group + k] <= last) & (lasts_[group + k] >= first));
    uint64_t words[2];
    std::memcpy(words, together, sizeof words);
    for (size_t w = 0; w < 2; ++w) {
      for (uint64_t left = words[w]; left != 0; left &= left - 1) {
        const size_t j = group + w * 8 + static_cast<size_t>(std::countr_zero(left)) / 8;
        if (begins_[j] >= at + size) {
          work_ += group;
          return at;
        }
        at = std::max(at, ends_[j]);
      }
    }
  }
  work_ += placed_;
  return at;
}

void Packer::insert(uint32_t first, uint32_t last, uint32_t begin, uint32_t end) {
  const auto place = static_cast<size_t>(
      std::upper_bound(begins_.begin(), begins_.begin() + static_cast<ptrdiff_t>(placed_), begin) -
      begins_.begin());
  const auto put = [&](std::vector<uint32_t>& array, uint32_t value) {
    std::memmove(&array[place + 1], &array[place], (placed_ - place) * sizeof(uint32_t));
    array[place] = value;
  };
  put(firsts_, first);
  put(lasts_, last);
  put(begins_, begin);
  put(ends_, end);
  ++placed_;
}

bool Packer::pack(const Order& order, uint32_t height_max, uint64_t work_max) {
  placed_ = 0;
  height_ = 0;
  std::fill(firsts_.begin(), firsts_.end(), UINT32_MAX);  // behind the placed ones: never together with any
  std::fill(lasts_.begin(), lasts_.end(), 0);
  for (const uint32_t i : order) {
    const BufferLife& life = buffers_[i];
    if (sizes_[i] == 0) {
      offsets_[i] = 0;
      continue;
    }
    const uint32_t at = lowest_place(life.first, life.last, sizes_[i]);
    offsets_[i] = at;
    height_ = std::max(height_, at + sizes_[i]);
    if (height_ > height_max || work_ > work_max) return false;
    insert(life.first, life.last, at, at + sizes_[i]);
  }
  return true;
}

uint64_t life_of(const BufferLife& buffer) { return uint64_t{buffer.last} - buffer.first + 1; }

// How many others each buffer meets: all but those that begin later or ended before.
std::vector<uint64_t> meetings(std::span<const BufferLife> buffers) {
  std::vector<uint32_t> firsts, lasts;
  for (const BufferLife& buffer : buffers) {
    firsts.push_back(buffer.first);
    lasts.push_back(buffer.last);
  }
  std::sort(firsts.begin(), firsts.end());
  std::sort(lasts.begin(), lasts.end());
  std::vector<uint64_t> counts;
  for (const BufferLife& buffer : buffers) {
    const auto begun = std::upper_bound(firsts.begin(), firsts.end(), buffer.last) - firsts.begin();
    const auto ended = std::lower_bound(lasts.begin(), lasts.end(), buffer.first) - lasts.begin();
    counts.push_back(static_cast<uint64_t>(begun - ended));
  }
  return counts;
}

// Most important first; equal keys go by size, then by start, then as given.
Order sorted_by(std::span<const BufferLife> buffers, const std::vector<uint64_t>& keys) {
  Order order(buffers.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (keys[a] != keys[b]) return keys[a] > keys[b];
    if (buffers[a].bytes != buffers[b].bytes) return buffers[a].bytes > buffers[b].bytes;
    if (life_of(buffers[a]) != life_of(buffers[b])) return life_of(buffers[a]) > life_of(buffers[b]);
    return buffers[a].first < buffers[b].first;
  });
  return order;
}

constexpr std::string_view kOrders[] = {"size", "area", "life", "meetings", "start", "end"};

Order order_named(std::string_view name, std::span<const BufferLife> buffers) {
  if (name == "meetings") return sorted_by(buffers, meetings(buffers));
  std::vector<uint64_t> keys;
  for (const BufferLife& buffer : buffers) {
    if (name == "size") keys.push_back(buffer.bytes);
    if (name == "area") keys.push_back(buffer.bytes * life_of(buffer));
    if (name == "life") keys.push_back(life_of(buffer));
    if (name == "start") keys.push_back(UINT32_MAX - buffer.first);
    if (name == "end") keys.push_back(buffer.last);
  }
  BF_CHECK(keys.size() == buffers.size()) << "no order named " << name;
  return sorted_by(buffers, keys);
}

// The best placement so far, and the search for a better one.
class Search {
 public:
  Search(std::span<const BufferLife> buffers, const PlaceOptions& options)
      : buffers_(buffers), options_(options), packer_(buffers) {
    const size_t load = live_bytes_max(buffers);
    const double goal = std::max(static_cast<double>(load) * options.good_enough,
                                 static_cast<double>(load + options.spare_bytes));
    goal_ = static_cast<uint32_t>(goal / static_cast<double>(packer_.unit()));
  }

  Placement run() {
    for (const std::string_view name : kOrders) {
      const bool first = best_order_.empty();
      Order order = order_named(name, buffers_);
      if (packer_.pack(order, UINT32_MAX, first ? UINT64_MAX : options_.work_max) &&
          (first || packer_.height() < height_))
        keep(std::move(order), name);
      if (done()) return result();
    }
    climb();
    return result();
  }

 private:
  bool done() const { return height_ <= goal_ || packer_.work() >= options_.work_max; }

  void keep(Order order, std::string_view name) {
    best_order_ = std::move(order);
    height_ = packer_.height();
    name_ = name;
    offsets_.clear();
    highest_.clear();
    for (uint32_t i = 0; i < buffers_.size(); ++i) {
      offsets_.push_back(packer_.offset(i));
      if (packer_.size(i) > 0 && packer_.top(i) == height_) highest_.push_back(i);
    }
  }

  // Takes one of the buffers that reach the top and puts it down earlier, anywhere before its turn. Moves
  // that make it no worse are kept, so that the search can leave a plateau.
  void climb() {
    for (uint64_t i = 0; !done(); ++i) {
      const uint64_t draw = random_u64(options_.seed, kClimbStream, i);
      const uint32_t buffer = highest_[draw % highest_.size()];
      Order order = best_order_;
      const auto from = std::find(order.begin(), order.end(), buffer);
      if (from == order.begin()) {
        // Nothing lies below it but its own size: no order is better.
        if (packer_.size(buffer) == height_ || i > 4 * buffers_.size()) return;
        continue;
      }
      const auto to =
          order.begin() + static_cast<ptrdiff_t>((draw >> 32) % static_cast<uint64_t>(from - order.begin()));
      std::rotate(to, from, from + 1);
      if (packer_.pack(order, height_, options_.work_max)) keep(std::move(order), "climb");
    }
  }

  Placement result() const {
    Placement placement{.offsets = {}, .bytes = height_ * packer_.unit(), .order = name_};
    for (const uint32_t offset : offsets_) placement.offsets.push_back(offset * packer_.unit());
    return placement;
  }

  static constexpr uint64_t kClimbStream = 0x636c696d62;  // "climb"
  std::span<const BufferLife> buffers_;
  PlaceOptions options_;
  Packer packer_;
  uint32_t goal_ = 0;
  uint32_t height_ = UINT32_MAX;
  Order best_order_;
  std::string_view name_;
  std::vector<uint32_t> offsets_;
  std::vector<uint32_t> highest_;
};

}  // namespace

Placement place(std::span<const BufferLife> buffers, const PlaceOptions& options) {
  if (buffers.empty()) return {};
  return Search(buffers, options).run();
}

std::span<const std::string_view> placement_orders() { return kOrders; }

Placement place_by(std::string_view order, std::span<const BufferLife> buffers) {
  Packer packer(buffers);
  BF_CHECK(packer.pack(order_named(order, buffers), UINT32_MAX, UINT64_MAX)) << "no bound was set";
  Placement placement{.offsets = {}, .bytes = packer.height() * packer.unit(), .order = order};
  for (uint32_t i = 0; i < buffers.size(); ++i) placement.offsets.push_back(packer.offset(i) * packer.unit());
  return placement;
}

}  // namespace butterfly::graph
