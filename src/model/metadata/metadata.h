// Key-value metadata of a model file: GGUF's value types and key names, whatever format the file has.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace butterfly::model {

// Numbered as in GGUF.
enum class MetaType : uint32_t {
  kU8 = 0,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};
inline constexpr uint32_t kMetaTypeCount = 13;

std::string_view meta_type_name(MetaType type);  // "u32", "string", ...

struct MetaArray;

// The elements of an array, one vector per type. Bools are bytes of 0 or 1.
using MetaElements =
    std::variant<std::vector<uint8_t>, std::vector<int8_t>, std::vector<uint16_t>, std::vector<int16_t>,
                 std::vector<uint32_t>, std::vector<int32_t>, std::vector<float>, std::vector<std::string>,
                 std::vector<MetaArray>, std::vector<uint64_t>, std::vector<int64_t>, std::vector<double>>;

struct MetaArray {
  MetaType type = MetaType::kU8;  // of the elements
  MetaElements elements;

  size_t size() const;
  friend bool operator==(const MetaArray&, const MetaArray&) = default;
};

MetaArray string_array(std::vector<std::string> values);
MetaArray f32_array(std::vector<float> values);
MetaArray i32_array(std::vector<int32_t> values);
MetaArray bool_array(std::vector<uint8_t> values);  // 0 or 1

// The alternative's index is the MetaType.
using MetaValue = std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool,
                               std::string, MetaArray, uint64_t, int64_t, double>;

inline MetaType meta_type(const MetaValue& value) { return static_cast<MetaType>(value.index()); }
// "u32", or "array of string" for arrays.
std::string meta_type_text(const MetaValue& value);
// For people: numbers and strings as they are, the first `items_max` elements of an array and its length.
std::string meta_text(const MetaValue& value, size_t items_max = 6);

// Keys in the order of the file, each once.
//
// Getters throw Error that names file, key, expected and found type: kNotFound when the key is missing (the
// _or forms return their default instead), kCorrupt when it has another type or the value does not fit.
// Integers of any width are accepted where an integer is asked for, as long as the value fits: writers
// disagree about widths. One thread changes it; any may read.
class Metadata {
 public:
  struct Entry {
    std::string key;
    MetaValue value;
  };

  Metadata() = default;
  explicit Metadata(std::string source) : source_(std::move(source)) {}

  // Throws Error kCorrupt if the key is there already.
  void add(std::string key, MetaValue value);
  // Adds or replaces.
  void set(std::string key, MetaValue value);

  const std::string& source() const { return source_; }  // file name for messages
  std::span<const Entry> entries() const { return entries_; }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  const MetaValue* find(std::string_view key) const;

  uint32_t u32(std::string_view key) const;
  uint32_t u32_or(std::string_view key, uint32_t otherwise) const;
  uint64_t u64(std::string_view key) const;
  uint64_t u64_or(std::string_view key, uint64_t otherwise) const;
  float f32(std::string_view key) const;
  float f32_or(std::string_view key, float otherwise) const;
  bool boolean(std::string_view key) const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  const std::string& string(std::string_view key) const;
  std::string string_or(std::string_view key, std::string_view otherwise) const;

  // Arrays. f32s takes f32 or f64, i32s any integers that fit.
  std::span<const std::string> strings(std::string_view key) const;
  std::vector<float> f32s(std::string_view key) const;
  std::vector<int32_t> i32s(std::string_view key) const;

 private:
  const MetaValue& get(std::string_view key, std::string_view expected) const;
  const MetaArray& array(std::string_view key, std::string_view expected) const;
  [[noreturn]] void mismatch(std::string_view key, std::string_view expected, const MetaValue& found) const;

  std::string source_ = "metadata";
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace butterfly::model
