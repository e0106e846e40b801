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

bool ConfigKeys::is_list(std::string_view name) const {
  const MetaValue* value = file_.metadata().find(key(name));
  return value != nullptr && std::holds_alternative<MetaArray>(*value);
}

std::vector<size_t> ConfigKeys::sizes(std::string_view name, size_t count, uint64_t most) const {
  const Metadata& metadata = file_.metadata();
  if (!is_list(name)) return std::vector<size_t>(count, optional_size(name, most));
  const std::vector<int32_t> numbers = metadata.i32s(key(name));
  if (numbers.size() < count)
    fail(Errc::kCorrupt, "{}: key {}: expected {} numbers, found {}", file_.path().string(), key(name), count,
         numbers.size());
  std::vector<size_t> sizes;
  for (size_t i = 0; i < count; ++i) {
    if (numbers[i] < 0 || static_cast<uint64_t>(numbers[i]) > most)
      fail(Errc::kCorrupt, "{}: key {}: number {}: expected 0 to {}, found {}", file_.path().string(),
           key(name), i, most, numbers[i]);
    sizes.push_back(static_cast<size_t>(numbers[i]));
  }
  return sizes;
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
