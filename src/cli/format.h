// Numbers as people read them: sizes, counts, durations.
#pragma once
#include <cstdint>
#include <string>

namespace butterfly::cli {

std::string format_bytes(uint64_t bytes);  // "512 B", "1.5 KiB", "4.1 GiB"
std::string format_count(uint64_t count);  // "999", "12.3 K", "1.1 M", "7.2 B", as parameter counts are given
std::string format_duration(double seconds);  // "350 us", "12.0 ms", "1.5 s", "3 min 20 s", "2 h 5 min"

}  // namespace butterfly::cli
