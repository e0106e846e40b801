#include "train/networks/image_network.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/random_stream.h"
#include "base/rng.h"
#include "train/networks/image_description.h"

namespace butterfly::train {
namespace {

using graph::ValueId;
using Layer = ImageNetwork::Layer;

struct Pair {
  size_t height, width;
};

// A number, or [height, width].
Pair pair_or(TomlTable& table, const toml::table& raw, const char* key, size_t least, Pair otherwise) {
  if (!table.has(key)) return otherwise;
  if (!raw.get(key)->is_array()) {
    const size_t value = table.count_or(key, least, 0);
    return {value, value};
  }
  const auto values = table.counts(key, least);
  if (values.size() != 2) table.wrong(key, "a number or [height, width]");
  return {values[0], values[1]};
}

void read_window(TomlTable& table, const toml::table& raw, Layer& layer) {
  const bool conv = layer.type == "conv2d" || layer.type == "depthwise_conv2d";
  if (!table.has("kernel")) table.wrong("kernel", "a number or [height, width]");
  const Pair kernel = pair_or(table, raw, "kernel", 1, {});
  const Pair stride = pair_or(table, raw, "stride", 1, conv ? Pair{1, 1} : kernel);
  const Pair padding = pair_or(table, raw, "padding", 0, {0, 0});
  if (!conv) {
    if (padding.height >= kernel.height || padding.width >= kernel.width)
      table.wrong("padding", "less than the kernel");
    layer.pool = {.kernel_h = kernel.height,
                  .kernel_w = kernel.width,
                  .stride_h = stride.height,
                  .stride_w = stride.width,
                  .pad_top = padding.height,
                  .pad_left = padding.width,
                  .pad_bottom = padding.height,
                  .pad_right = padding.width};
    return;
  }
  const Pair dilation = pair_or(table, raw, "dilation", 1, {1, 1});
  layer.conv = {.kernel_h = kernel.height,
                .kernel_w = kernel.width,
                .stride_h = stride.height,
                .stride_w = stride.width,
                .pad_top = padding.height,
                .pad_left = padding.width,
                .pad_bottom = padding.height,
                .pad_right = padding.width,
                .dilation_h = dilation.height,
                .dilation_w = dilation.width};
}

void read_product(TomlTable& table, Layer& layer) {
  layer.bias = table.flag_or("bias", true);
  layer.activation = table.string_or("activation", "none");
  if (layer.activation != "none" && layer.activation != "relu" && layer.activation != "silu" &&
      layer.activation != "gelu")
    table.wrong("activation", "none, relu, silu or gelu");
}

// The keys each type has.
Layer read_layer(const DescribedLayer& described, std::string_view file) {
  const toml::table& raw = described.table;
  TomlTable table(raw, file);
  Layer layer;
  layer.line = raw.source().begin.line;
  layer.type = table.string("type");
  layer.prefix = described.prefix;
  layer.name = layer.prefix + table.string_or("name", fmt::format("{}_{}", layer.type, described.index));
  if (layer.name == kInputName) table.wrong("name", "another name: 'input' is the image");
  layer.input = table.string_or("input", "");
  layer.enters = described.enters;
  layer.entry = described.entry;
  layer.alias = described.alias;
  if (layer.type == "conv2d" || layer.type == "depthwise_conv2d") {
    read_window(table, raw, layer);
    read_product(table, layer);
    if (layer.type == "conv2d") {
      if (!table.has("out")) table.wrong("out", "the number of channels that come out");
      layer.groups = table.count_or("groups", 1, 1);
    }
    layer.out = table.count_or(layer.type == "conv2d" ? "out" : "multiplier", 1, 1);
  } else if (layer.type == "max_pool" || layer.type == "avg_pool") {
    read_window(table, raw, layer);
  } else if (layer.type == "linear") {
    if (!table.has("out")) table.wrong("out", "the number of values that come out");
    layer.out = table.count_or("out", 1, 1);
    read_product(table, layer);
  } else if (layer.type == "group_norm") {
    layer.groups = table.count_or("groups", 1, 1);
  } else if (layer.type == "dropout") {
    layer.rate = static_cast<float>(table.number("rate", 1, 0));
    if (layer.rate >= 1) table.wrong("rate", "a number below 1");
  } else if (layer.type == "add") {
    layer.from = table.string("from");
  } else if (layer.type != "batch_norm" && layer.type != "relu" && layer.type != "silu" &&
             layer.type != "gelu" && layer.type != "flatten" && layer.type != "global_avg_pool") {
    table.wrong("type",
                "conv2d, depthwise_conv2d, max_pool, avg_pool, global_avg_pool, linear, batch_norm, "
                "group_norm, relu, silu, gelu, dropout, flatten, add or the name of a block");
  }
  table.no_more_keys();
  return layer;
}

ValueId activate(graph::Graph& g, ValueId x, const std::string& kind, const std::string& name) {
  if (kind == "relu") return graph::relu(g, x, name + ".relu");
  if (kind == "silu") return graph::silu(g, x, name + ".silu");
  if (kind == "gelu") return graph::gelu(g, x, name + ".gelu");
  return x;
}

// What dropout and norms need to know.
struct Mode {
  bool training;
  ValueId key;
  uint32_t dropouts = 0;
};

ValueId add_layer(graph::Graph& g, const Layer& layer, ValueId x, ValueId other, Mode& mode) {
  const std::string& type = layer.type;
  if (type == "conv2d" || type == "depthwise_conv2d") {
    const bool relu = layer.activation == "relu";  // in the same pass
    const ValueId y = graph::conv2d(g, x, layer.conv, layer.weight, layer.bias_values, relu, layer.name);
    return relu ? y : activate(g, y, layer.activation, layer.name);
  }
  if (type == "max_pool") return graph::max_pool2d(g, x, layer.pool, layer.name);
  if (type == "avg_pool") return graph::avg_pool2d(g, x, layer.pool, layer.name);
  if (type == "global_avg_pool") {
    const Shape& shape = g.type(x).shape;
    kernels::Pool2d whole;
    if (shape.rank() == 4) {
      whole.kernel_h = static_cast<size_t>(shape[1]);
      whole.kernel_w = static_cast<size_t>(shape[2]);
    }
    return graph::avg_pool2d(g, x, whole, layer.name);
  }
  if (type == "linear")
    return activate(g, graph::linear(g, x, layer.weight, layer.bias_values, layer.name), layer.activation,
                    layer.name);
  if (type == "batch_norm")
    return graph::batch_norm(g, x, {&layer.weight, &layer.bias_values, &layer.mean, &layer.variance}, 1e-5f,
                             mode.training, layer.name);
  if (type == "group_norm")
    return graph::group_norm(g, x, layer.weight, layer.bias_values, layer.groups, 1e-5f, layer.name);
  if (type == "dropout")
    return mode.training && layer.rate > 0
               ? graph::dropout(g, x, mode.key, layer.rate, mode.dropouts++, layer.name)
               : x;
  if (type == "add") return graph::add(g, x, other, layer.name);
  if (type == "flatten") return x;  // rows are flat in memory as they are
  return activate(g, x, type, layer.name);
}

// Which value a layer reads: the one before, or one that it names.
class Ways {
 public:
  explicit Ways(ValueId pixels) : pixels_(pixels), entered_(pixels), before_(pixels) {}

  ValueId input_of(const Layer& layer) {
    if (layer.enters) entered_ = layer.entry.empty() ? before_ : find({}, layer.entry);
    if (layer.input.empty()) return layer.enters ? entered_ : before_;
    return find(layer.prefix, layer.input);
  }
  ValueId other_of(const Layer& layer) const {
    return layer.from.empty() ? ValueId{} : find(layer.prefix, layer.from);
  }
  // False if one of this name was there.
  bool add(const Layer& layer, ValueId result) {
    before_ = result;
    return named_.emplace(layer.name, result).second &&
           (layer.alias.empty() || named_.emplace(layer.alias, result).second);
  }

 private:
  ValueId find(const std::string& prefix, const std::string& name) const {
    if (name == kInputName) return prefix.empty() ? pixels_ : entered_;
    const auto it = named_.find(prefix + name);
    if (it == named_.end()) fail(Errc::kInvalidArgument, "no layer '{}' stands before this one", name);
    return it->second;
  }

  std::map<std::string, ValueId> named_;
  ValueId pixels_, entered_, before_;
};

}  // namespace

graph::Parameter ImageNetwork::make(const std::string& name, Shape shape, float mean, float deviation) {
  Tensor tensor = Tensor::zeros(DType::kF32, shape);
  auto* values = tensor.data<float>();
  const uint64_t stream = random_stream(name);
  for (size_t i = 0; with_values_ && i < static_cast<size_t>(tensor.count()); ++i)
    values[i] = deviation == 0 ? mean : mean + deviation * random_normal(seed_, stream, i);
  weights_.emplace(name, tensor);
  return {.name = name, .value = tensor, .trainable = true};
}

void ImageNetwork::make_weights(Layer& layer, const Shape& in) {
  const auto channels = in.back();
  // A relu halves the variance.
  const auto deviation = [&](int64_t fan_in) {
    return std::sqrt((layer.activation == "none" ? 1.0f : 2.0f) / static_cast<float>(fan_in));
  };
  if (layer.type == "conv2d" || layer.type == "depthwise_conv2d") {
    if (in.rank() != 4) fail(Errc::kInvalidArgument, "expected an image, found {} values", in[1]);
    layer.conv.in_c = static_cast<size_t>(channels);
    if (layer.type == "depthwise_conv2d") layer.groups = layer.conv.in_c;
    layer.conv.groups = layer.groups;
    layer.conv.out_c = layer.type == "conv2d" ? layer.out : layer.out * layer.conv.in_c;
    if (layer.conv.in_c % layer.groups != 0 || layer.conv.out_c % layer.groups != 0)
      fail(Errc::kInvalidArgument, "{} and {} channels do not divide into {} groups", layer.conv.in_c,
           layer.conv.out_c, layer.groups);
    const Shape shape{static_cast<int64_t>(layer.conv.out_c), static_cast<int64_t>(layer.conv.kernel_h),
                      static_cast<int64_t>(layer.conv.kernel_w), static_cast<int64_t>(layer.conv.group_in())};
    layer.weight = make(layer.name + ".weight", shape, 0, deviation(shape.count() / shape[0]));
    if (layer.bias) layer.bias_values = make(layer.name + ".bias", {shape[0]}, 0, 0);
  } else if (layer.type == "linear") {
    const int64_t values = in.count() / in[0], out = static_cast<int64_t>(layer.out);
    layer.weight = make(layer.name + ".weight", {out, values}, 0, deviation(values));
    if (layer.bias) layer.bias_values = make(layer.name + ".bias", {out}, 0, 0);
  } else if (layer.type == "batch_norm" || layer.type == "group_norm") {
    layer.weight = make(layer.name + ".weight", {channels}, 1, 0);
    layer.bias_values = make(layer.name + ".bias", {channels}, 0, 0);
    if (layer.type == "batch_norm") {
      layer.mean = make(layer.name + ".mean", {channels}, 0, 0);
      layer.variance = make(layer.name + ".variance", {channels}, 1, 0);
      layer.mean.statistic = layer.variance.statistic = true;
    }
  }
}

ImageNetwork::ImageNetwork(std::string_view text, std::string_view file_name, uint64_t seed, bool with_values)
    : file_name_(file_name), seed_(seed), with_values_(with_values) {
  const ImageDescription description = read_image_description(text, file_name);
  height_ = description.height, width_ = description.width, channels_ = description.channels;

  // Layers are put behind one another in a graph of one item, which says what comes out of each.
  graph::Graph probe;
  Mode mode{true, probe.input("key", {graph::Elem::kI32, {2}})};
  ValueId x = probe.input("pixels", {graph::Elem::kF32,
                                     {1, static_cast<int64_t>(height_), static_cast<int64_t>(width_),
                                      static_cast<int64_t>(channels_)}});
  Ways ways(x);
  for (const DescribedLayer& described : description.layers) {
    layers_.push_back(read_layer(described, file_name));
    Layer& layer = layers_.back();
    try {
      x = ways.input_of(layer);
      const ValueId other = ways.other_of(layer);
      make_weights(layer, probe.type(x).shape);
      x = add_layer(probe, layer, x, other, mode);
      layer.shape = probe.type(x).shape;
    } catch (const Error& error) {
      fail(error.code(), "{}:{}: layer {} ({}): {}", file_name_, layer.line, layer.name, layer.type,
           error.what());
    }
    if (!ways.add(layer, x))
      fail(Errc::kInvalidArgument, "{}:{}: a second layer named '{}'", file_name_, layer.line,
           layer.alias.empty() ? layer.name : layer.alias);
  }
  classes_ = probe.type(x).cols();
}

ImageNetwork ImageNetwork::from_file(const std::filesystem::path& path, uint64_t seed, bool with_values) {
  const auto file = MappedFile::open(path);
  const auto bytes = file->bytes();
  return ImageNetwork({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string(), seed,
                      with_values);
}

BuiltNetwork ImageNetwork::build(graph::Graph& g, size_t items, bool training) const {
  using graph::Elem;
  const auto n = static_cast<int64_t>(items);
  BuiltNetwork built;
  built.pixels = g.input("pixels", {Elem::kF32,
                                    {n, static_cast<int64_t>(channels_), static_cast<int64_t>(height_),
                                     static_cast<int64_t>(width_)}});
  built.targets = g.input("targets", {Elem::kI32, {n}});
  built.factor = g.input("factor", {Elem::kF32, {1}});
  const bool drops = training && std::any_of(layers_.begin(), layers_.end(),
                                             [](const Layer& layer) { return layer.rate > 0; });
  if (drops) built.dropout_key = g.input("dropout_key", {Elem::kI32, {2}});
  Mode mode{training, built.dropout_key};
  ValueId x = graph::channels_last(g, built.pixels, "channels_last");
  Ways ways(x);
  for (const Layer& layer : layers_) {
    const ValueId from = ways.input_of(layer);
    x = add_layer(g, layer, from, ways.other_of(layer), mode);
    ways.add(layer, x);
  }
  built.loss = graph::cross_entropy(g, x, built.targets, built.factor, "loss");
  g.mark_output(built.loss.loss);
  g.mark_output(built.loss.correct);
  g.mark_output(built.loss.rows);
  return built;
}

size_t ImageNetwork::parameter_count() const {
  size_t count = 0;
  for (const Layer& layer : layers_)
    for (const graph::Parameter* learns : {&layer.weight, &layer.bias_values})
      if (*learns) count += static_cast<size_t>(learns->value.count());
  return count;
}

std::string ImageNetwork::summary() const {
  std::string text;
  size_t widest = 20;
  for (const Layer& layer : layers_) widest = std::max(widest, layer.name.size());
  for (const Layer& layer : layers_) {
    int64_t weights = 0;
    for (const graph::Parameter* p : {&layer.weight, &layer.bias_values, &layer.mean, &layer.variance})
      if (*p) weights += p->value.count();
    std::string shape;
    for (size_t axis = 1; axis < layer.shape.rank(); ++axis)
      shape += (axis > 1 ? " x " : "") + std::to_string(layer.shape[axis]);
    text += fmt::format("{:<{}} {:<18} {:<16} {:>10}\n", layer.name, widest, layer.type, shape, weights);
  }
  return text;
}

}  // namespace butterfly::train
