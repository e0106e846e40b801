// What readers of config.json share.
#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "model/formats/hf_architecture.h"

namespace butterfly::model {

// Writes "<arch>.<key>". Borrows the metadata.
class HfKeys {
 public:
  HfKeys(Metadata& metadata, const std::string& arch) : metadata_(metadata), prefix_(arch + ".") {}
  void set(std::string_view key, MetaValue value) {
    metadata_.set(prefix_ + std::string(key), std::move(value));
  }

 private:
  Metadata& metadata_;
  std::string prefix_;
};

// What nearly all of them share. Returns the size of a head.
uint32_t read_hf_transformer(const JsonObject& config, const std::string& arch, HfConfig& to);
// Throws unless `key` is missing or one of these.
void expect_hf_activation(const JsonObject& config, std::string_view key,
                          std::initializer_list<std::string_view> known);

// The text part of a multimodal model's settings, or all of them.
template <typename F>
void with_text_config(const JsonObject& config, F&& read) {
  const nlohmann::json* text = config.find("text_config");
  if (text == nullptr || !text->is_object()) return read(config);
  read(JsonObject(*text, config.file(), "text_config: "));
}

}  // namespace butterfly::model
