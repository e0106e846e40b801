#include "model/chat_template/json_text.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/chat_template/operators.h"
#include "model/chat_template/python_text.h"
#include "model/tokenizer/unicode_text.h"

namespace butterfly::model::chat_template {

namespace {

class JsonWriter {
 public:
  JsonWriter(Budget& budget, const JsonStyle& style) : budget_(budget), style_(style) {}

  Text take() { return std::move(out_); }

  void write(const Value& value, int level) {
    budget_.step();
    if (value.is_none() || value.is_number()) {
      out_.append(scalar(value), Origin::kTemplate);
    } else if (value.is_text()) {
      text(value.view());
    } else if (const List* list = value.list(); list != nullptr && list->kind <= ListKind::kTuple) {
      if (list->items.empty()) return put("[]");
      put("[");
      for (size_t i = 0; i < list->items.size(); ++i) {
        separate(i == 0, level + 1);
        write(list->items[i], level + 1);
      }
      newline(level);
      put("]");
    } else if (const Dict* dict = value.dict()) {
      write_dict(*dict, level);
    } else {
      require_defined(value);
      fail(Errc::kInvalidArgument, "tojson: a {} has no JSON", value.type_name());
    }
  }

 private:
  void put(TextView text) {
    budget_.allocate(text.size());
    out_.append(text);
  }
  void put(std::string_view text) { put({text, Origin::kTemplate}); }
  void newline(int level) {
    if (!style_.indented) return;
    put("\n");
    for (int i = 0; i < level; ++i) put(style_.indent.view());
  }
  void separate(bool first, int level) {
    if (!first) put(style_.item_end.view());
    newline(level);
  }

  static std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return value.truthy() ? "true" : "false";
    if (value.is_int()) return std::to_string(value.integer());
    if (std::isnan(value.real())) return "NaN";
    if (std::isinf(value.real())) return value.real() < 0 ? "-Infinity" : "Infinity";
    return python_float(value.real());
  }

  void write_dict(const Dict& dict, int level) {
    if (dict.entries.empty()) return put("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys)
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const auto* a, const auto* b) { return order(budget_, a->first, b->first) < 0; });
    put("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      separate(i == 0, level + 1);
      const Value& key = entries[i]->first;
      if (!key.is_text() && !key.is_number() && !key.is_none())
        fail(Errc::kInvalidArgument, "tojson: a {} is no key of an object", key.type_name());
      if (key.is_text()) {
        text(key.view());
      } else {
        text({scalar(key), Origin::kTemplate});
      }
      put(style_.key_end.view());
      write(entries[i]->second, level + 1);
    }
    newline(level);
    put("}");
  }

  // What stands for a character in JSON, if it is not the character itself.
  std::string escape(uint32_t c) const {
    constexpr std::string_view kFrom = "\"\\\n\r\t\b\f";
    constexpr std::string_view kTo = "\"\\nrtbf";
    const size_t known = c < 0x80 ? kFrom.find(static_cast<char>(c)) : kFrom.npos;
    if (known != kFrom.npos) return {'\\', kTo[known]};
    if (c < 0x20 || (style_.ascii && c >= 0x7f && c < 0x10000)) return fmt::format("\\u{:04x}", c);
    if (style_.ascii && c >= 0x10000)
      return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((c - 0x10000) >> 10),
                         0xdc00 + ((c - 0x10000) & 0x3ff));
    return {};
  }

  void text(TextView text) {
    budget_.allocate(text.size() + 2);
    out_.append("\"", Origin::kTemplate);
    while (!text.empty()) {
      const CodePoint c = front_code_point(text.bytes);
      const TextView character = text.substr(0, c.length);
      const std::string escaped = escape(c.value);
      if (escaped.empty()) {
        out_.append(character);
      } else {
        out_.append(escaped, character.origin());
      }
      text = text.substr(c.length);
    }
    out_.append("\"", Origin::kTemplate);
  }

  Budget& budget_;
  const JsonStyle& style_;
  Text out_;
};

// Keeps the order of keys, which nlohmann::json does not; and counts depth and bytes as they come.
class ValueReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit ValueReader(Budget& budget) : budget_(budget) {}
  Value take() { return std::move(result_); }
  std::string error;

  bool null() override { return put(None()); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(int64_t value) override { return put(value); }
  bool number_unsigned(uint64_t value) override {
    if (value > static_cast<uint64_t>(INT64_MAX)) return put(static_cast<double>(value));
    return put(static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string&) override { return put(value); }
  bool string(std::string& value) override { return put(make_text(budget_, Text(value))); }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool key(std::string& name) override {
    open_.back().key = name;
    return true;
  }
  bool end_object() override {
    Value value = open_.back().dict.take();
    open_.pop_back();
    return put(std::move(value));
  }
  bool end_array() override {
    Value value = make_list(budget_, std::move(open_.back().items));
    open_.pop_back();
    return put(std::move(value));
  }
  bool parse_error(size_t place, const std::string&, const nlohmann::json::exception&) override {
    error = fmt::format("not JSON at byte {}", place);
    return false;
  }

 private:
  struct Open {
    bool is_object;
    std::string key;
    Values items;
    DictBuilder dict;
  };

  bool open(bool is_object) {
    if (open_.size() >= static_cast<size_t>(kValueDepthMax)) {
      error = fmt::format("JSON is nested deeper than {}", kValueDepthMax);
      return false;
    }
    open_.push_back({is_object, "", {}, DictBuilder(budget_)});
    return true;
  }
  bool put(Value value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().dict.add(make_text(budget_, Text(open_.back().key)), std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  Budget& budget_;
  std::vector<Open> open_;
  Value result_;
};

}  // namespace

Text to_json(Budget& budget, const Value& value, const JsonStyle& style) {
  JsonWriter writer(budget, style);
  writer.write(value, 0);
  return writer.take();
}

Value parse_json(Budget& budget, std::string_view json) {
  ValueReader reader(budget);
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader))
    fail(Errc::kInvalidArgument, "{}", reader.error);
  return reader.take();
}

}  // namespace butterfly::model::chat_template
