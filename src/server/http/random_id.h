// Random names: request ids, ids of answers, keys.
#pragma once
#include <cstddef>
#include <string>

namespace butterfly::server {

// `digits` random hexadecimal digits from the system's source. Throws Error kIo when it has none.
std::string random_id(size_t digits);

}  // namespace butterfly::server
