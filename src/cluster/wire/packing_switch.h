// Whether compressing pays on a link, from what was measured: goes on and off by itself.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "cluster/wire/packing.h"

namespace butterfly::cluster {

struct PackingOptions {
  enum class Mode : uint8_t { kOff, kAuto, kLz4, kZstd, kLz4Frame };
  Mode mode = Mode::kAuto;
  size_t bytes_min = size_t{512} << 10;  // smaller messages go as they are
};
// "off", "auto", "lz4", "lz4-frame", "zstd". Throws Error kInvalidArgument naming the key.
PackingOptions::Mode packing_mode_by_name(std::string_view name);

// Of values of one kind that go one behind the other. With kAuto a message is sent packed when
//
//   packing + unpacking + packed bytes / link speed  <  0.95 bytes / link speed
//
// by the last sample of each code and the speed of the last sends. Not thread-safe; knows no clock.
class PackingSwitch {
 public:
  // Values change slowly, and a sample takes less than a thousandth of so many messages.
  static constexpr uint64_t kSampleEvery = 64;
  static constexpr size_t kSampleBytes = size_t{64} << 10;

  explicit PackingSwitch(const PackingOptions& options) : options_(options) {}

  // Whether some of this message should be packed for measure: sampled() follows for each code.
  bool wants_sample(size_t bytes) const;
  // Of kSampleBytes: what is left of a byte, and seconds for it.
  void sampled(Packing packing, double ratio, double pack_seconds, double unpack_seconds);
  // What the next message goes as.
  Packing choose(size_t bytes);
  // It is on its way: so many bytes of the link in so many seconds.
  void sent(size_t bytes, double seconds);

  // Of all messages, as they were and as they were sent.
  void count(size_t plain, size_t sent);
  uint64_t plain_bytes() const { return plain_bytes_; }
  uint64_t sent_bytes() const { return sent_bytes_; }
  // What it does now, and why.
  std::string describe() const;

 private:
  struct Sample {
    double ratio = 1, pack = 0, unpack = 0;  // a byte
    bool known = false;
  };
  const Sample& sample(Packing packing) const { return samples_[static_cast<size_t>(packing) - 1]; }
  double seconds(Packing packing) const;  // for a byte, from here to there

  const PackingOptions options_;
  Sample samples_[std::size(kPackings)];
  double bytes_per_second_ = 0;  // of the link
  Packing chosen_ = Packing::kNone;
  uint64_t messages_ = 0;  // large enough, since the last sample
  uint64_t plain_bytes_ = 0, sent_bytes_ = 0;
};

}  // namespace butterfly::cluster
