#include "runtime/planning/group_choice.h"

#include <charconv>

#include "base/error.h"
#include "kernels/tiles/shards.h"

namespace butterfly::runtime {

GroupChoice parse_groups(std::string_view flag, std::string_view text) {
  constexpr size_t kMost = kernels::kShardsMax;  // a member has whole shards of every product
  if (text == "off") return {};
  if (text == "auto") return {.most = kAutoGroupMax, .always = false};
  size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 2 || count > kMost)
    fail(Errc::kInvalidArgument, "{} {}: expected off, auto or a number from 2 to {}", flag, text, kMost);
  return {.most = count, .always = true};
}

}  // namespace butterfly::runtime
