#include "graph/testing/network_lives.h"

#include <algorithm>

#include "base/rng.h"

namespace butterfly::graph::testing {
namespace {

enum class Mode { kInfer, kTrain, kTrainKeepGradients };

// Records a network as a list of operations, then plays it forward and backward.
class Sketch {
 public:
  explicit Sketch(Mode mode) : mode_(mode) {}

  // An operation whose output has `floats` values. `saves`: which values its backward step reads; `weights`:
  // values of its weight gradient.
  int op(std::vector<int> inputs, size_t floats, std::vector<int> saves, size_t weights = 0,
         bool saves_output = false, size_t scratch = 0) {
    ops_.push_back({std::move(inputs), std::move(saves), floats, weights, scratch, saves_output});
    return static_cast<int>(ops_.size() - 1);
  }

  std::vector<BufferLife> play() {
    const auto forward = static_cast<uint32_t>(ops_.size());
    std::vector<uint32_t> last(ops_.size());
    for (uint32_t i = 0; i < forward; ++i) {
      last[i] = i;
      for (const int input : ops_[i].inputs) touch(last, input, i);
      scratch(ops_[i].scratch, i);
    }
    if (mode_ != Mode::kInfer) backward(last, forward);
    for (uint32_t i = 0; i < forward; ++i) lives_.push_back({ops_[i].floats * 4, i, last[i]});
    return std::move(lives_);
  }

 private:
  struct Op {
    std::vector<int> inputs, saves;
    size_t floats, weights, scratch;
    bool saves_output;
  };

  static void touch(std::vector<uint32_t>& last, int value, uint32_t step) {
    if (value >= 0) last[static_cast<size_t>(value)] = std::max(last[static_cast<size_t>(value)], step);
  }

  void scratch(size_t floats, uint32_t step) {
    if (floats > 0) lives_.push_back({floats * 4, step, step});
  }

  // Each gradient lives from the first consumer met on the way back to the backward step of its own
  // operation.
  void backward(std::vector<uint32_t>& last, uint32_t forward) {
    std::vector<uint32_t> gradient_first(ops_.size(), UINT32_MAX);
    const uint32_t end = 2 * forward;
    for (uint32_t back = 0; back < forward; ++back) {
      const uint32_t i = forward - 1 - back;
      const uint32_t step = forward + back;
      const Op& op = ops_[i];
      if (gradient_first[i] == UINT32_MAX) gradient_first[i] = step;
      lives_.push_back({op.floats * 4, gradient_first[i], step});
      for (const int saved : op.saves) touch(last, saved, step);
      if (op.saves_output) touch(last, static_cast<int>(i), step);
      for (const int input : op.inputs)
        if (input >= 0)
          gradient_first[static_cast<size_t>(input)] =
              std::min(gradient_first[static_cast<size_t>(input)], step);
      if (op.weights > 0)
        lives_.push_back({op.weights * 4, step, mode_ == Mode::kTrainKeepGradients ? end : step});
      scratch(op.scratch, step);
    }
  }

  Mode mode_;
  std::vector<Op> ops_;
  std::vector<BufferLife> lives_;
};

constexpr int kOutside = -1;  // the network's input

std::vector<BufferLife> gpt2(Mode mode, size_t batch, size_t tokens) {
  constexpr size_t kDim = 768, kLayers = 12, kHeads = 12, kVocabulary = 50257, kLogitRows = 64;
  const size_t rows = batch * tokens;
  Sketch net(mode);
  int x = net.op({kOutside}, rows * kDim, {}, (kVocabulary + 1024) * kDim);
  for (size_t layer = 0; layer < kLayers; ++layer) {
    const int norm = net.op({x}, rows * kDim, {x}, 2 * kDim);
    const int qkv = net.op({norm}, rows * 3 * kDim, {norm}, 3 * kDim * kDim);
    const int sums =
        net.op({qkv}, rows * kHeads, {});  // of the softmax: all that attention keeps of its scores
    const int attention = net.op({qkv, sums}, rows * kDim, {qkv, sums}, 0, true, 64 * tokens);
    const int projection = net.op({attention}, rows * kDim, {attention}, kDim * kDim);
    const int sum = net.op({x, projection}, rows * kDim, {});
    const int norm2 = net.op({sum}, rows * kDim, {sum}, 2 * kDim);
    const int up = net.op({norm2}, rows * 4 * kDim, {norm2}, 4 * kDim * kDim);
    const int gelu = net.op({up}, rows * 4 * kDim, {up});
    const int down = net.op({gelu}, rows * kDim, {gelu}, 4 * kDim * kDim);
    x = net.op({sum, down}, rows * kDim, {});
  }
  const int norm = net.op({x}, rows * kDim, {x}, 2 * kDim);
  if (mode == Mode::kInfer) {
    net.op({norm}, kVocabulary, {});
  } else {
    net.op({norm}, rows, {norm}, kVocabulary * kDim, false, kLogitRows * kVocabulary);
  }
  return net.play();
}

// One of the two kinds of blocks: two 3x3 convolutions, or 1x1, 3x3, 1x1 with four times the channels.
struct ResNet {
  Sketch net;
  size_t batch;
  int x = kOutside;
  size_t channels = 3, side = 224;

  int conv(int from, size_t in, size_t out, size_t kernel, size_t out_side) {
    const size_t floats = batch * out * out_side * out_side;
    const int product = net.op({from}, floats, {from}, in * out * kernel * kernel);
    return net.op({product}, floats, {product}, 2 * out);  // batch norm
  }
  int relu(int from, size_t out, size_t out_side) {
    return net.op({from}, batch * out * out_side * out_side, {}, 0, true);
  }
  void block(size_t width, size_t expansion, size_t stride) {
    const size_t out = width * expansion, out_side = side / stride;
    int y = x;
    if (expansion == 1) {
      y = relu(conv(y, channels, width, 3, out_side), width, out_side);
      y = conv(y, width, width, 3, out_side);
    } else {
      y = relu(conv(y, channels, width, 1, side), width, side);
      y = relu(conv(y, width, width, 3, out_side), width, out_side);
      y = conv(y, width, out, 1, out_side);
    }
    int shortcut = x;
    if (stride != 1 || channels != out) shortcut = conv(x, channels, out, 1, out_side);
    channels = out;
    side = out_side;
    x = relu(net.op({y, shortcut}, batch * out * side * side, {}), out, side);
  }
};

std::vector<BufferLife> resnet(Mode mode, size_t batch, std::vector<size_t> blocks, size_t expansion) {
  ResNet r{Sketch(mode), batch};
  r.x = r.relu(r.conv(kOutside, 3, 64, 7, 112), 64, 112);
  r.channels = 64;
  r.side = 56;
  r.x = r.net.op({r.x}, batch * 64 * 56 * 56, {r.x}, 0, true);  // max pool
  for (size_t stage = 0; stage < blocks.size(); ++stage)
    for (size_t i = 0; i < blocks[stage]; ++i)
      r.block(size_t{64} << stage, expansion, stage > 0 && i == 0 ? 2 : 1);
  const int pooled = r.net.op({r.x}, batch * r.channels, {});
  const int logits = r.net.op({pooled}, batch * 1000, {pooled}, r.channels * 1000);
  r.net.op({logits}, batch, {logits});
  return r.net.play();
}

}  // namespace

std::vector<NetworkLives> network_lives() {
  const std::vector<size_t> resnet18 = {2, 2, 2, 2}, resnet50 = {3, 4, 6, 3};
  return {
      {"GPT-2 infer T=1024", gpt2(Mode::kInfer, 1, 1024)},
      {"GPT-2 infer T=128", gpt2(Mode::kInfer, 1, 128)},
      {"GPT-2 train B=4 T=64", gpt2(Mode::kTrain, 4, 64)},
      {"GPT-2 train B=4 T=64, gradients kept", gpt2(Mode::kTrainKeepGradients, 4, 64)},
      {"GPT-2 train B=1 T=1024", gpt2(Mode::kTrain, 1, 1024)},
      {"GPT-2 train B=1 T=1024, gradients kept", gpt2(Mode::kTrainKeepGradients, 1, 1024)},
      {"ResNet-18 infer B=1", resnet(Mode::kInfer, 1, resnet18, 1)},
      {"ResNet-50 infer B=1", resnet(Mode::kInfer, 1, resnet50, 4)},
      {"ResNet-18 train B=8", resnet(Mode::kTrain, 8, resnet18, 1)},
      {"ResNet-18 train B=8, gradients kept", resnet(Mode::kTrainKeepGradients, 8, resnet18, 1)},
      {"ResNet-50 train B=8", resnet(Mode::kTrain, 8, resnet50, 4)},
      {"ResNet-50 train B=8, gradients kept", resnet(Mode::kTrainKeepGradients, 8, resnet50, 4)},
  };
}

std::vector<BufferLife> many_lives(size_t count, uint64_t seed) {
  std::vector<BufferLife> buffers;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t draw = random_u64(seed, 0, i);
    const size_t bytes = ((draw & 0xff) + 1) << ((draw >> 8) % 14);
    if (i % 2 == 0) {
      const auto first = static_cast<uint32_t>(i / 2);
      const auto mirror = static_cast<uint32_t>(count - first);
      buffers.push_back({bytes, first, (draw >> 24) % 8 == 0 ? first + 2 : mirror});
    } else {
      const auto first = static_cast<uint32_t>(i);
      buffers.push_back({bytes, first, first + static_cast<uint32_t>((draw >> 32) % 4)});
    }
  }
  return buffers;
}

}  // namespace butterfly::graph::testing
