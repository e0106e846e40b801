#include "cluster/member/incarnation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "base/error.h"

namespace butterfly::cluster {
namespace {

constexpr const char* kFile = "incarnation";
// Far beyond every clock; below it epochs stay whole numbers for JavaScript too.
constexpr Incarnation kMax = Incarnation{1} << 43;

}  // namespace

Incarnation last_incarnation(const StateFolder& folder) {
  if (!folder.has(kFile)) return 0;
  const std::string text = folder.read(kFile, 64);
  Incarnation last = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), last);
  if (error != std::errc{} || std::string_view(end) != "\n" || last >= kMax)
    fail(Errc::kCorrupt, "{}: expected a number below 2^43, found '{}'; delete the file",
         (folder.path() / kFile).string(), text.substr(0, text.find('\n')));
  return last;
}

Incarnation next_incarnation(const StateFolder& folder, int64_t unix_ms) {
  const StateFolder::Lock lock(folder);
  const Incarnation clock = static_cast<Incarnation>(std::max<int64_t>(unix_ms, 1));
  const Incarnation next = std::max(std::min(clock, kMax - 1), last_incarnation(folder) + 1);
  folder.write(kFile, fmt::format("{}\n", next));
  return next;
}

}  // namespace butterfly::cluster
