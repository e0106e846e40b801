#include "base/machine_load.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace butterfly {
namespace {

namespace fs = std::filesystem;

uint64_t sensor_number(const fs::path& file) {
  uint64_t value = 0;
  std::ifstream(file) >> value;
  return value;
}

// Folders below `parent` whose names begin so; at most so many, whatever a machine has.
template <typename Visit>
void each_folder(const fs::path& parent, const std::string& begin, const Visit& visit) {
  constexpr size_t kFoldersMax = 1024;
  size_t count = 0;
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end && count < kFoldersMax;
       it.increment(error))
    if (it->path().filename().string().starts_with(begin)) {
      visit(it->path());
      ++count;
    }
}

uint64_t process_bytes(const fs::path& root) {
  std::ifstream in(root / "proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("RssAnon:")) return std::strtoull(line.c_str() + 8, nullptr, 10) << 10;
  return 0;
}

}  // namespace

MachineLoadSampler::MachineLoadSampler(fs::path root) : root_(std::move(root)) {}

MachineLoad MachineLoadSampler::sample() {
  MachineLoad load;
  std::ifstream in(root_ / "proc/stat");
  std::string name;
  // user nice system idle iowait irq softirq steal; what guests use is in user already.
  uint64_t ticks[8] = {};
  in >> name;
  for (uint64_t& value : ticks) in >> value;
  uint64_t all = 0;
  for (const uint64_t value : ticks) all += value;
  const uint64_t used = all - ticks[3] - ticks[4];
  if (all_ > 0 && all > all_ && used >= used_)
    load.busy = std::min(1.0, static_cast<double>(used - used_) / static_cast<double>(all - all_));
  used_ = used;
  all_ = all;
  load.process_bytes = process_bytes(root_);
  each_folder(root_ / "sys/class/thermal", "thermal_zone", [&](const fs::path& zone) {
    const auto celsius = static_cast<double>(sensor_number(zone / "temp")) / 1000;
    if (celsius < 200) load.celsius = std::max(load.celsius, celsius);  // some sensors say nonsense
  });
  each_folder(root_ / "sys/devices/system/cpu", "cpu", [&](const fs::path& cpu) {
    load.throttles += sensor_number(cpu / "thermal_throttle/core_throttle_count");
  });
  return load;
}

}  // namespace butterfly
