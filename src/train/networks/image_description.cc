#include "train/networks/image_description.h"

#include <set>

namespace butterfly::train {
namespace {

constexpr size_t kRepeatMax = 1000;  // of one block; a description stays something a person can read

// Tables of a file, to be taken out and changed. A copy of a TOML node forgets its line, so that each use of
// a block parses the file again: descriptions are short.
class Source {
 public:
  Source(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  toml::table root() const { return parse_toml(text_, file_); }
  toml::table layer(size_t index) const { return take(root(), index); }
  std::vector<toml::table> block(const std::string& name) const {
    toml::table parsed = root();
    toml::table& block = *parsed["block"][name].as_table();
    std::vector<toml::table> layers;
    for (size_t i = 0; i < block["layer"].as_array()->size(); ++i) layers.push_back(take(block, i));
    return layers;
  }

 private:
  static toml::table take(toml::table&& of, size_t index) { return take(of, index); }
  static toml::table take(toml::table& of, size_t index) {
    return std::move(*(*of["layer"].as_array())[index].as_table());
  }
  std::string_view text_, file_;
};

// Puts what the block's use has at `key` where a layer says "$key", and notes which keys were wanted.
void substitute(toml::table& layer, const Source& source, size_t use_index, std::set<std::string>& wanted,
                std::string_view file) {
  std::vector<std::pair<std::string, std::string>> places;
  for (const auto& [key, node] : layer)
    if (const auto text = node.value_exact<std::string>(); text && text->starts_with('$'))
      places.emplace_back(key.str(), text->substr(1));
  for (const auto& [key, name] : places) {
    toml::table use = source.layer(use_index);
    toml::node* value = use.get(name);
    if (value == nullptr)
      fail(Errc::kInvalidArgument, "{}:{}: {}: expected a key '{}' in line {}, where the block is used", file,
           layer.get(key)->source().begin.line, key, name, use.source().begin.line);
    wanted.insert(name);
    value->visit([&, &at = key](auto& typed) { layer.insert_or_assign(at, std::move(typed)); });
  }
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view file) : source_(text, file), file_(file) {}

  ImageDescription read() {
    const toml::table root = source_.root();
    TomlTable table(root, file_);
    ImageDescription description;
    const auto input = table.counts("input", 1);
    if (input.size() != 3) table.wrong("input", "[height, width, channels]");
    description.height = input[0], description.width = input[1], description.channels = input[2];
    for (auto& [name, block] : table.named_tables("block")) {
      const size_t layers = block.tables("layer").size();
      block.no_more_keys();
      if (layers == 0)
        fail(Errc::kInvalidArgument, "{}: block '{}' has no [[block.{}.layer]]", file_, name, name);
      blocks_.insert(name);
    }
    const auto layers = table.tables("layer");
    table.no_more_keys();
    if (layers.empty()) fail(Errc::kInvalidArgument, "{}: expected [[layer]] tables, found none", file_);
    for (size_t i = 0; i < layers.size(); ++i) {
      toml::table layer = source_.layer(i);
      const std::string type = layer["type"].value_or(std::string());
      if (!blocks_.contains(type)) {
        description.layers.push_back({.table = std::move(layer), .index = i});
        continue;
      }
      add_block(type, std::move(layer), i, description.layers);
    }
    return description;
  }

 private:
  void add_block(const std::string& block, toml::table use, size_t index, std::vector<DescribedLayer>& out) {
    TomlTable keys(use, file_);
    const std::string name = keys.string_or("name", fmt::format("{}_{}", block, index));
    const size_t repeat = keys.count_or("repeat", 1, 1);
    if (repeat > kRepeatMax) keys.wrong("repeat", fmt::format("a whole number up to {}", kRepeatMax));
    const std::string entry = keys.string_or("input", "");
    std::set<std::string> wanted = {"type", "name", "repeat", "input"};
    for (size_t i = 0; i < repeat; ++i) {
      const std::string own = repeat == 1 ? name : fmt::format("{}.{}", name, i);
      std::vector<toml::table> layers = source_.block(block);
      for (size_t j = 0; j < layers.size(); ++j) {
        substitute(layers[j], source_, index, wanted, file_);
        if (blocks_.contains(layers[j]["type"].value_or(std::string())))
          fail(Errc::kInvalidArgument, "{}:{}: a block cannot stand in a block", file_,
               layers[j].source().begin.line);
        out.push_back({.table = std::move(layers[j]),
                       .index = j,
                       .prefix = own + ".",
                       .enters = j == 0,
                       .entry = i == 0 ? entry : ""});
      }
      out.back().alias = i + 1 == repeat ? name : own;
    }
    for (const auto& [key, node] : use)
      if (!wanted.contains(std::string(key.str())))
        fail(Errc::kInvalidArgument, "{}:{}: key '{}': block '{}' has no ${}", file_,
             node.source().begin.line, key.str(), block, key.str());
  }

  Source source_;
  std::string file_;
  std::set<std::string> blocks_;
};

}  // namespace

ImageDescription read_image_description(std::string_view text, std::string_view file_name) {
  return Reader(text, file_name).read();
}

}  // namespace butterfly::train
