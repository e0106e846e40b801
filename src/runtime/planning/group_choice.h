// How many nodes may share each layer, as people say it.
#pragma once
#include <cstddef>
#include <string_view>

namespace butterfly::runtime {

struct GroupChoice {
  size_t most = 1;      // nodes of a group; 1: no layer is shared
  bool always = false;  // so many do where there are so many, whatever it gains; else where that is faster
  friend bool operator==(const GroupChoice&, const GroupChoice&) = default;
};
inline constexpr size_t kAutoGroupMax = 4;
// "off", "auto" or a number from 2 to 8. Throws Error kInvalidArgument that names `flag`.
GroupChoice parse_groups(std::string_view flag, std::string_view text);

}  // namespace butterfly::runtime
