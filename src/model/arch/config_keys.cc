#include "model/arch/config_keys.h"

#include "base/error.h"

namespace butterfly::model {

size_t ConfigKeys::size(std::string_view name, uint64_t most) const {
  const uint64_t value = file_.metadata().u64(key(name));
  if (value == 0 || value > most)
    fail(Errc::kCorrupt, "{}: key {}: expected 1 to {}, found {}", file_.path().string(), key(name), most,
         value);
  return value;
}

size_t ConfigKeys::size_or(std::string_view name, uint64_t otherwise, uint64_t most) const {
  return has(name) ? size(name, most) : otherwise;
}

size_t ConfigKeys::optional_size(std::string_view name, uint64_t most) const {
  return file_.metadata().u64_or(key(name), 0) == 0 ? 0 : size(name, most);
}

float ConfigKeys::f32_or(std::string_view name, float otherwise) const {
  return file_.metadata().f32_or(key(name), otherwise);
}

std::string ConfigKeys::string_or(std::string_view name, std::string_view otherwise) const {
  return file_.metadata().string_or(key(name), otherwise);
}

}  // namespace butterfly::model
