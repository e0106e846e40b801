// Numbers for people: bytes, counts and times with their units, and bytes back from text.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace butterfly {

// Three digits: "17 B", "1.50 KiB", "12.3 MiB", "256 GiB".
std::string format_bytes(uint64_t bytes);

// Three digits, thousands: "999", "1.23 k", "110 M", "7.24 B" (billions, as models are named), "1.5 T".
std::string format_count(uint64_t count);

// Three digits: "250 ns", "1.20 us", "12.3 ms", "1.20 s"; from a minute on "2 min 05 s", "3 h 07 min".
std::string format_duration(std::chrono::nanoseconds duration);

// "4096", "64k", "1.5 GiB", "2GB". K, M, G, T alone or with iB are powers of 1024; with B powers of 1000.
// Case does not matter. kInvalidArgument, naming the text, for anything else or what does not fit.
Result<uint64_t> parse_bytes(std::string_view text);

}  // namespace butterfly
