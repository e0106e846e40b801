#include "model/formats/safetensors_header.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/error.h"
#include "base/printable.h"

namespace butterfly::model {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kTextsKey = "__metadata__";

// Takes the parser's events. The only sound shape is
//   {"__metadata__": {key: string ...}, name: {"dtype": string, "shape": [n ...], "data_offsets": [b, e]}
//   ...}
class HeaderEvents {
 public:
  explicit HeaderEvents(const std::string& file) : file_(file) {}

  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("a bool"); }
  bool number_integer(Json::number_integer_t value) { return unexpected(fmt::format("{}", value)); }
  bool number_float(Json::number_float_t, const std::string& text) { return unexpected(printable(text)); }
  bool binary(Json::binary_t&) { return unexpected("binary data"); }

  bool number_unsigned(Json::number_unsigned_t value) {
    if (!in_array_) return unexpected(fmt::format("{}", value));
    if (field_ == Field::kShape) {
      if (tensor().sizes.size() == kSafetensorsRankMax)
        refuse("expected at most {} sizes, found more", kSafetensorsRankMax);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        refuse("expected a size below 2^63, found {}", value);
      tensor().sizes.push_back(static_cast<int64_t>(value));
    } else {
      if (offset_count_ == 2) refuse("expected 2 offsets, found more");
      (offset_count_++ == 0 ? begin_ : end_) = value;
    }
    return true;
  }

  bool string(std::string& value) {
    if (depth_ == 2 && texts_) {
      header_.texts.back().second = std::move(value);
      return true;
    }
    if (depth_ != 2 || field_ != Field::kType) return unexpected(fmt::format("'{}'", printable(value)));
    if (!tensor().type.empty() || value.empty())
      refuse("expected one name of a type, found '{}'", printable(value));
    tensor().type = std::move(value);
    return true;
  }

  bool start_object(size_t) {
    if (in_array_ || depth_ >= 2) return unexpected("an object");
    ++depth_;
    return true;
  }

  bool key(std::string& key) {
    if (depth_ == 1) return begin_entry(key);
    if (texts_) {
      header_.texts.emplace_back(std::move(key), std::string());
      return true;
    }
    field_ = key == "dtype" ? Field::kType : key == "shape" ? Field::kShape : Field::kOffsets;
    if (field_ == Field::kOffsets && key != "data_offsets")
      refuse("expected dtype, shape or data_offsets, found '{}'", printable(key));
    if (seen_[static_cast<size_t>(field_)]) refuse("expected {} once, found it twice", key);
    seen_[static_cast<size_t>(field_)] = true;
    return true;
  }

  bool end_object() {
    if (depth_ == 2 && !texts_) finish_tensor();
    if (depth_ == 2) entry_.clear();
    --depth_;
    return true;
  }

  bool start_array(size_t) {
    if (depth_ != 2 || texts_ || in_array_ || field_ == Field::kType) return unexpected("an array");
    in_array_ = true;
    return true;
  }
  bool end_array() {
    in_array_ = false;
    return true;
  }

  bool parse_error(size_t position, const std::string& token, const Json::exception&) {
    refuse("not JSON at byte {}, near '{}'", position, printable(token, 40));
  }

  SafetensorsHeader take() { return std::move(header_); }

 private:
  enum class Field { kType, kShape, kOffsets };

  SafetensorsTensor& tensor() { return header_.tensors.back(); }

  bool begin_entry(std::string& name) {
    entry_ = printable(name);
    if (name.empty()) refuse("a tensor without a name");
    if (!names_.insert(name).second) refuse("expected once, found twice");
    texts_ = name == kTextsKey;
    if (texts_) return true;
    header_.tensors.push_back({});
    tensor().name = std::move(name);
    std::fill(std::begin(seen_), std::end(seen_), false);
    offset_count_ = 0;
    return true;
  }

  void finish_tensor() {
    if (tensor().type.empty()) refuse("expected dtype, found none");
    if (!seen_[static_cast<size_t>(Field::kShape)]) refuse("expected shape, found none");
    if (offset_count_ != 2) refuse("expected 2 data_offsets, found {}", offset_count_);
    if (begin_ > end_) refuse("data_offsets: expected begin <= end, found {} and {}", begin_, end_);
    tensor().offset = begin_;
    tensor().bytes = end_ - begin_;
  }

  bool unexpected(const std::string& found) {
    if (depth_ == 0) refuse("expected an object, found {}", found);
    if (depth_ == 1) refuse("expected an object, found {}", found);
    if (texts_) refuse("expected a string, found {}", found);
    if (field_ == Field::kType) refuse("dtype: expected a string, found {}", found);
    refuse("{}: expected whole numbers from 0 in an array, found {}",
           field_ == Field::kShape ? "shape" : "data_offsets", found);
  }

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(Errc::kCorrupt, "{}: safetensors header{}: {}", file_, entry_.empty() ? "" : ", " + entry_,
         fmt::format(format, std::forward<Args>(args)...));
  }

  const std::string& file_;
  SafetensorsHeader header_;
  std::unordered_set<std::string> names_;
  std::string entry_;  // the name we are inside of, for messages
  bool texts_ = false;
  bool in_array_ = false;
  size_t depth_ = 0;
  Field field_ = Field::kType;
  bool seen_[3] = {};
  size_t offset_count_ = 0;
  uint64_t begin_ = 0, end_ = 0;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& file) {
  HeaderEvents events(file);
  Json::sax_parse(json, &events);
  return events.take();
}

}  // namespace butterfly::model
