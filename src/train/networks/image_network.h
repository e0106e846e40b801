// Image networks described in TOML: layers one behind the other, with names where branches begin and join.
//
//   input = [28, 28, 1]          # height, width, channels
//   [[layer]]
//   type = "conv2d"              # out, kernel, stride, padding, dilation, groups, bias, activation
//   out = 32
//   kernel = 3
//   activation = "relu"
//   [[layer]]
//   type = "max_pool"            # kernel, stride, padding; also avg_pool, global_avg_pool
//   kernel = 2
//   [[layer]]
//   type = "linear"              # out, bias, activation
//   out = 10
//
// Others: depthwise_conv2d (multiplier), batch_norm, group_norm (groups), relu, silu, gelu, dropout (rate),
// flatten, add (from). Every layer may have a `name`, and an `input`: the name of an earlier layer instead of
// the one before; "input" is the image. Sizes with two values are [height, width]. The last layer's values
// are the classes' logits.
//
// Layers that repeat are a block: its name is a type, "$key" stands for what its use has there, and
// inside it "input" is what comes in.
//
//   [[block.residual.layer]]
//   type = "conv2d"
//   out = "$out"
//   kernel = 3
//   padding = 1
//   [[block.residual.layer]]
//   type = "add"
//   from = "input"
//   [[layer]]
//   type = "residual"
//   out = 64
//   repeat = 3                   # one behind the other
#pragma once
#include <deque>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "kernels/conv2d/conv2d.h"
#include "kernels/pool2d/pool2d.h"
#include "train/trainer/network.h"

namespace butterfly::train {

// Owns its weights, which the trainer changes in place. Building graphs is for any thread; training for one.
class ImageNetwork : public TrainableNetwork {
 public:
  // Throws Error kInvalidArgument with file, line, layer, expected and found. Weights are a function of
  // (seed, name, index): normal, with the variance that keeps that of the values.
  // `with_values` false: all zero, for dry runs.
  ImageNetwork(std::string_view text, std::string_view file_name, uint64_t seed, bool with_values = true);
  static ImageNetwork from_file(const std::filesystem::path& path, uint64_t seed, bool with_values = true);
  ImageNetwork(const ImageNetwork&) = delete;
  ImageNetwork(ImageNetwork&&) = default;

  BuiltNetwork build(graph::Graph& graph, size_t items, bool training) const override;
  const std::map<std::string, Tensor>& weights() const override { return weights_; }
  size_t height() const { return height_; }
  size_t width() const { return width_; }
  size_t channels() const { return channels_; }
  size_t classes() const { return classes_; }
  size_t parameter_count() const;  // of those that learn: without running means and variances
  // One line per layer: name, type, shape of the result, weights.
  std::string summary() const;

  struct Layer {
    std::string type, name, activation;
    std::string prefix, input, from;  // names of other layers, as they are called behind the prefix
    bool enters = false;              // the first of a block, into which `entry` comes
    std::string entry, alias;
    size_t out = 0, groups = 1;
    bool bias = true;
    float rate = 0;
    kernels::Conv2d conv;
    kernels::Pool2d pool;
    graph::Parameter weight, bias_values, mean, variance;
    Shape shape;  // of one item's result
    uint32_t line = 0;
  };

 private:
  graph::Parameter make(const std::string& name, Shape shape, float mean, float deviation);
  void make_weights(Layer& layer, const Shape& in);

  std::deque<Layer> layers_;  // graphs keep addresses of their parameters
  std::map<std::string, Tensor> weights_;
  std::string file_name_;
  uint64_t seed_;
  bool with_values_;
  size_t height_ = 0, width_ = 0, channels_ = 0, classes_ = 0;
};

}  // namespace butterfly::train
