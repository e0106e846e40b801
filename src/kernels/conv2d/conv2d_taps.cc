#include "kernels/conv2d/conv2d_taps.h"

#include <algorithm>
#include <cstring>

namespace butterfly::kernels {

ptrdiff_t TapAxis::lowest() const { return taps.empty() ? 0 : *std::min_element(taps.begin(), taps.end()); }
ptrdiff_t TapAxis::highest() const { return taps.empty() ? 0 : *std::max_element(taps.begin(), taps.end()); }

bool TapAxis::inside() const {
  if (outputs == 0 || taps.empty()) return true;
  const auto last = static_cast<ptrdiff_t>((outputs - 1) * step);
  return lowest() >= 0 && last + highest() < static_cast<ptrdiff_t>(source);
}

TapRange TapAxis::inside(size_t output) const {
  TapRange range;
  for (size_t t = 0; t < taps.size(); ++t) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(output * step) + taps[t];
    if (at < 0 || at >= static_cast<ptrdiff_t>(source)) continue;
    if (range.size() == 0) range.begin = t;
    range.end = t + 1;
  }
  return range;
}

bool TapAxis::ascending() const {
  return std::adjacent_find(taps.begin(), taps.end(), [](ptrdiff_t a, ptrdiff_t b) { return b != a + 1; }) ==
         taps.end();
}

size_t TapAxis::reach(size_t count) const {
  return count == 0 ? 0 : (count - 1) * step + static_cast<size_t>(highest() - lowest()) + 1;
}

TapAxis forward_axis(size_t outputs, size_t source, size_t kernel, size_t stride, size_t pad,
                     size_t dilation) {
  TapAxis axis{.outputs = outputs, .step = stride, .source = source, .taps = {}, .kernel = {}};
  for (size_t k = 0; k < kernel; ++k) {
    axis.taps.push_back(static_cast<ptrdiff_t>(k * dilation) - static_cast<ptrdiff_t>(pad));
    axis.kernel.push_back(k);
  }
  return axis;
}

TapAxis data_axis(size_t phase, size_t inputs, size_t source, size_t kernel, size_t stride, size_t pad,
                  size_t dilation) {
  const size_t outputs = phase < inputs ? (inputs - phase - 1) / stride + 1 : 0;
  TapAxis axis{.outputs = outputs, .step = 1, .source = source, .taps = {}, .kernel = {}};
  for (size_t k = 0; k < kernel; ++k) {
    const auto from = static_cast<ptrdiff_t>(phase + pad) - static_cast<ptrdiff_t>(k * dilation);
    if (from % static_cast<ptrdiff_t>(stride) != 0) continue;
    axis.taps.push_back(from / static_cast<ptrdiff_t>(stride));
    axis.kernel.push_back(k);
  }
  return axis;
}

TapSource::Offsets TapSource::offsets() const {
  Offsets result{{}, channels};
  const bool joined = pixel_stride() == channels && w.ascending();
  if (joined) result.run = channels * w.taps.size();
  for (ptrdiff_t y : h.taps) {
    for (ptrdiff_t x : w.taps) {
      result.at.push_back((y - h.lowest()) * static_cast<ptrdiff_t>(row_stride()) +
                          (x - w.lowest()) * static_cast<ptrdiff_t>(pixel_stride()));
      if (joined) break;
    }
  }
  return result;
}

const float* TapSource::window(size_t image, size_t row, size_t rows, float* copy) const {
  const float* pixels = images + image * h.source * w.source * image_channels + first_channel;
  const ptrdiff_t top = static_cast<ptrdiff_t>(row * h.step) + h.lowest(), left = w.lowest();
  const auto width = static_cast<ptrdiff_t>(w.source);
  if (direct()) return pixels + (top * width + left) * static_cast<ptrdiff_t>(image_channels);
  const auto columns = static_cast<ptrdiff_t>(w.reach(w.outputs));
  // Columns [begin, end) of the copy have pixels.
  const ptrdiff_t begin = std::clamp<ptrdiff_t>(-left, 0, columns);
  const ptrdiff_t end = std::clamp<ptrdiff_t>(width - left, begin, columns);
  for (ptrdiff_t y = top; y < top + static_cast<ptrdiff_t>(h.reach(rows)); ++y) {
    float* to = copy + (y - top) * columns * static_cast<ptrdiff_t>(channels);
    const auto at = [&](ptrdiff_t column) { return to + column * static_cast<ptrdiff_t>(channels); };
    if (y < 0 || y >= static_cast<ptrdiff_t>(h.source)) {
      std::fill(to, at(columns), 0.0f);
      continue;
    }
    std::fill(to, at(begin), 0.0f);
    std::fill(at(end), at(columns), 0.0f);
    const float* from = pixels + (y * width + begin + left) * static_cast<ptrdiff_t>(image_channels);
    if (image_channels == channels) {
      std::memcpy(at(begin), from, static_cast<size_t>(end - begin) * channels * sizeof(float));
    } else {
      for (ptrdiff_t x = begin; x < end; ++x, from += image_channels)
        std::memcpy(at(x), from, channels * sizeof(float));
    }
  }
  return copy;
}

}  // namespace butterfly::kernels
