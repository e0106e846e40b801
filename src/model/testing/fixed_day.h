// For tests: the moment at which the stored renderings were made.
#pragma once
#include <ctime>

namespace butterfly::model {

// 2025-07-10 12:00:00, a Thursday.
inline std::tm fixed_day() {
  std::tm day{};
  day.tm_year = 125;
  day.tm_mon = 6;
  day.tm_mday = 10;
  day.tm_hour = 12;
  day.tm_wday = 4;
  day.tm_yday = 190;
  return day;
}

}  // namespace butterfly::model
