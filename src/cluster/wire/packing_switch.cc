#include "cluster/wire/packing_switch.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace butterfly::cluster {
namespace {

// What it must be better by: measurements are not exact.
constexpr double kGain = 0.95;

}  // namespace

PackingOptions::Mode packing_mode_by_name(std::string_view name) {
  using Mode = PackingOptions::Mode;
  if (name == "off") return Mode::kOff;
  if (name == "auto") return Mode::kAuto;
  if (name == "lz4") return Mode::kLz4;
  if (name == "zstd") return Mode::kZstd;
  if (name == "lz4-frame") return Mode::kLz4Frame;
  fail(Errc::kInvalidArgument, "wire_compress: expected off, auto, lz4, lz4-frame or zstd, found '{}'", name);
}

bool PackingSwitch::wants_sample(size_t bytes) const {
  if (options_.mode != PackingOptions::Mode::kAuto || bytes < std::max(options_.bytes_min, kSampleBytes))
    return false;
  // Without the speed of the link there is nothing to compare with.
  return bytes_per_second_ > 0 && (!samples_[0].known || messages_ >= kSampleEvery);
}

void PackingSwitch::sampled(Packing packing, double ratio, double pack_seconds, double unpack_seconds) {
  constexpr auto kBytes = static_cast<double>(kSampleBytes);
  samples_[static_cast<size_t>(packing) - 1] = {ratio, pack_seconds / kBytes, unpack_seconds / kBytes, true};
  messages_ = 0;
}

double PackingSwitch::seconds(Packing packing) const {
  if (packing == Packing::kNone) return 1 / bytes_per_second_;
  const Sample& it = sample(packing);
  return it.pack + it.unpack + it.ratio / bytes_per_second_;
}

Packing PackingSwitch::choose(size_t bytes) {
  using Mode = PackingOptions::Mode;
  if (bytes < options_.bytes_min || options_.mode == Mode::kOff) return Packing::kNone;
  if (options_.mode == Mode::kLz4) return chosen_ = Packing::kLz4;
  if (options_.mode == Mode::kZstd) return chosen_ = Packing::kZstd;
  if (options_.mode == Mode::kLz4Frame) return chosen_ = Packing::kLz4Frame;
  ++messages_;
  chosen_ = Packing::kNone;
  if (bytes_per_second_ <= 0) return chosen_;
  double best = kGain * seconds(Packing::kNone);
  for (const Packing packing : kPackings)
    if (sample(packing).known && seconds(packing) < best) {
      best = seconds(packing);
      chosen_ = packing;
    }
  return chosen_;
}

void PackingSwitch::sent(size_t bytes, double seconds) {
  // What is small goes into buffers, and says nothing of the link.
  if (bytes < options_.bytes_min || seconds <= 0) return;
  const double now = static_cast<double>(bytes) / seconds;
  bytes_per_second_ = bytes_per_second_ == 0 ? now : 0.8 * bytes_per_second_ + 0.2 * now;
}

void PackingSwitch::count(size_t plain, size_t sent) {
  plain_bytes_ += plain;
  sent_bytes_ += sent;
}

std::string PackingSwitch::describe() const {
  if (options_.mode == PackingOptions::Mode::kOff) return "off";
  if (bytes_per_second_ == 0) return fmt::format("off: no message of {} bytes yet", options_.bytes_min);
  std::string text =
      fmt::format("{}: link {:.0f} MB/s", chosen_ == Packing::kNone ? "off" : packing_name(chosen_),
                  bytes_per_second_ * 1e-6);
  for (const Packing packing : kPackings)
    if (sample(packing).known)
      text += fmt::format(", {} to {:.3f} at {:.0f} MB/s", packing_name(packing), sample(packing).ratio,
                          1e-6 / (sample(packing).pack + sample(packing).unpack));
  return text;
}

}  // namespace butterfly::cluster
