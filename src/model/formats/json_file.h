// JSON from files nobody vouches for: bounded in size and depth, with errors that name file, key, expected
// and found.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace butterfly::model {

inline constexpr uint64_t kJsonFileBytesMax = uint64_t{256} << 20;  // the largest tokenizer.json has 30 MB
inline constexpr int kJsonDepthMax = 64;

// The text of a file of at most kJsonFileBytesMax. Throws Error kNotFound, kIo or kCorrupt.
std::string read_text_file(const std::filesystem::path& path);

// Throws Error kCorrupt for what is not JSON, or is nested deeper than kJsonDepthMax.
nlohmann::json parse_json(std::string_view text, const std::string& file);

// One object of a JSON file, read key by key. Cheap to copy; borrows the JSON.
//
// A key with the value null is a missing key. Getters throw Error: kNotFound for a missing key, kCorrupt for
// another type or a value out of range.
class JsonObject {
 public:
  // Throws Error kCorrupt if `json` is not an object. `place` is a prefix for keys in messages.
  JsonObject(const nlohmann::json& json, std::string file, std::string place = {});

  const std::string& file() const { return file_; }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  const nlohmann::json* find(std::string_view key) const;  // null if missing or null
  std::optional<JsonObject> object(std::string_view key) const;

  uint32_t u32(std::string_view key) const;
  uint32_t u32_or(std::string_view key, uint32_t otherwise) const { return has(key) ? u32(key) : otherwise; }
  double number(std::string_view key) const;
  float f32(std::string_view key) const { return static_cast<float>(number(key)); }
  float f32_or(std::string_view key, float otherwise) const { return has(key) ? f32(key) : otherwise; }
  bool boolean_or(std::string_view key, bool otherwise) const;
  std::string string(std::string_view key) const;
  std::string string_or(std::string_view key, std::string_view otherwise) const;
  std::vector<float> numbers(std::string_view key) const;
  std::vector<std::string> strings(std::string_view key) const;

  [[noreturn]] void mismatch(std::string_view key, std::string_view expected) const;

 private:
  const nlohmann::json& get(std::string_view key, std::string_view expected) const;

  const nlohmann::json* json_;
  std::string file_;
  std::string place_;
};

}  // namespace butterfly::model
