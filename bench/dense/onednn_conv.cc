#include <dnnl.hpp>

#include "conv_rival.h"

namespace butterfly::bench {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

class OneDnnConv : public ConvRival {
 public:
  explicit OneDnnConv(const kernels::Conv2d& c) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const auto n = [](size_t v) { return static_cast<memory::dim>(v); };
    const memory::dims x = {n(c.batch), n(c.in_c), n(c.in_h), n(c.in_w)};
    const memory::dims y = {n(c.batch), n(c.out_c), n(c.out_h()), n(c.out_w())};
    memory::dims w = {n(c.out_c), n(c.in_c), n(c.kernel_h), n(c.kernel_w)};
    if (c.groups > 1) w = {n(c.groups), n(c.group_out()), n(c.group_in()), n(c.kernel_h), n(c.kernel_w)};
    const memory::dims strides = {n(c.stride_h), n(c.stride_w)};
    const memory::dims dilations = {n(c.dilation_h - 1), n(c.dilation_w - 1)};
    const memory::dims begin = {n(c.pad_top), n(c.pad_left)}, end = {n(c.pad_bottom), n(c.pad_right)};
    const auto any = [](const memory::dims& dims) {
      return memory::desc(dims, memory::data_type::f32, Tag::any);
    };
    const auto direct = dnnl::algorithm::convolution_direct;
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, direct, any(x), any(w), any(y), strides, dilations, begin, end},
        engine_);
    const dnnl::convolution_backward_data::primitive_desc data(
        {direct, any(x), any(w), any(y), strides, dilations, begin, end}, engine_, forward);
    const dnnl::convolution_backward_weights::primitive_desc weights(
        {direct, any(x), any(w), any(y), strides, dilations, begin, end}, engine_, forward);
    forward_ = dnnl::convolution_forward(forward);
    data_ = dnnl::convolution_backward_data(data);
    weights_ = dnnl::convolution_backward_weights(weights);
    forward_args_ = {{DNNL_ARG_SRC, make(forward.src_desc())},
                     {DNNL_ARG_WEIGHTS, make(forward.weights_desc())},
                     {DNNL_ARG_DST, make(forward.dst_desc())}};
    data_args_ = {{DNNL_ARG_DIFF_SRC, make(data.diff_src_desc())},
                  {DNNL_ARG_WEIGHTS, make(data.weights_desc())},
                  {DNNL_ARG_DIFF_DST, make(data.diff_dst_desc())}};
    weights_args_ = {{DNNL_ARG_SRC, make(weights.src_desc())},
                     {DNNL_ARG_DIFF_WEIGHTS, make(weights.diff_weights_desc())},
                     {DNNL_ARG_DIFF_DST, make(weights.diff_dst_desc())}};
  }
  void forward() override { run(forward_, forward_args_); }
  void backward_data() override { run(data_, data_args_); }
  void backward_weights() override { run(weights_, weights_args_); }

 private:
  using Args = std::unordered_map<int, memory>;
  memory make(const memory::desc& desc) {
    memory result(desc, engine_);
    auto* floats = static_cast<float*>(result.get_data_handle());
    for (size_t i = 0; i < desc.get_size() / sizeof(float); ++i)
      floats[i] = static_cast<float>(i % 2001) / 1000 - 1;
    return result;
  }
  void run(dnnl::primitive& primitive, const Args& args) {
    primitive.execute(stream_, args);
    stream_.wait();
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive forward_, data_, weights_;
  Args forward_args_, data_args_, weights_args_;
};

}  // namespace

std::unique_ptr<ConvRival> onednn_conv(const kernels::Conv2d& conv) {
  return std::make_unique<OneDnnConv>(conv);
}

}  // namespace butterfly::bench
