#include "kernels/conv2d/conv2d_band.h"

#include <algorithm>

namespace butterfly::kernels {
namespace {

std::vector<AxisClass> axis_classes(const TapAxis& axis) {
  std::vector<AxisClass> classes;
  for (size_t output = 0; output < axis.outputs; ++output) {
    const TapRange taps = axis.inside(output);
    if (classes.empty() || classes.back().taps.begin != taps.begin || classes.back().taps.end != taps.end)
      classes.push_back({taps, {output, output}});
    classes.back().outputs.end = output + 1;
  }
  return classes;
}

// Several whole runs, or parts of a long one.
std::vector<TapPiece> cut(const std::vector<TapRun>& runs, size_t run, size_t steps_max) {
  std::vector<TapPiece> pieces;
  const size_t count = run == 0 ? 1 : std::max<size_t>(steps_max / run, 1);
  const size_t parts = (run + steps_max - 1) / steps_max, part = parts == 0 ? 0 : (run + parts - 1) / parts;
  for (size_t r = 0; r < runs.size(); r += count)
    for (size_t start = 0; start < run; start += part) {
      TapPiece piece{{}, std::min(part, run - start)};
      for (size_t i = r; i < std::min(r + count, runs.size()); ++i)
        piece.runs.push_back({runs[i].from + static_cast<ptrdiff_t>(start), runs[i].step + start});
      pieces.push_back(std::move(piece));
    }
  if (pieces.empty()) pieces.push_back({});  // sums of nothing
  return pieces;
}

TapClass make_class(const TapSource& s, const AxisClass& h, const AxisClass& w, size_t steps_max) {
  TapClass kind{.h = h, .w = w, .whole = false, .pieces = {}};
  kind.whole = h.taps.size() == s.h.taps.size() && w.taps.size() == s.w.taps.size();
  const bool joined = s.image_channels == s.channels && s.w.ascending();
  const auto row = static_cast<ptrdiff_t>(s.w.source * s.image_channels);
  const auto pixel = static_cast<ptrdiff_t>(s.image_channels);
  std::vector<TapRun> runs;
  for (size_t y = h.taps.begin; y < h.taps.end; ++y)
    for (size_t x = w.taps.begin; x < w.taps.end; ++x) {
      runs.push_back(
          {(s.h.taps[y] - s.h.taps[h.taps.begin]) * row + (s.w.taps[x] - s.w.taps[w.taps.begin]) * pixel,
           (y * s.w.taps.size() + x) * s.channels});
      if (joined) break;
    }
  kind.pieces = cut(runs, joined ? s.channels * w.taps.size() : s.channels, steps_max);
  return kind;
}

}  // namespace

std::vector<TapClass> tap_classes(const TapSource& source, size_t steps_max) {
  std::vector<TapClass> classes;
  for (const AxisClass& h : axis_classes(source.h))
    for (const AxisClass& w : axis_classes(source.w)) classes.push_back(make_class(source, h, w, steps_max));
  return classes;
}

void Band::fill(const TapJob& job, const std::vector<TapClass>& classes, size_t row, size_t stop) {
  const TapSource& s = job.source;
  const TapTarget& t = job.target;
  const size_t from_step = s.w.step * s.image_channels, to_step = t.column_step * t.channels;
  const size_t height = s.h.outputs;
  from.resize((stop - row) * s.w.outputs);
  to.resize(from.size());
  groups.clear();
  size_t at = 0;
  for (const TapClass& kind : classes) {
    const size_t begin = at, width = kind.w.outputs.size(), column = kind.w.outputs.begin;
    const bool empty = kind.h.taps.size() == 0 || kind.w.taps.size() == 0;
    const ptrdiff_t down = empty ? 0 : s.h.taps[kind.h.taps.begin];
    const ptrdiff_t right =
        empty ? 0 : static_cast<ptrdiff_t>(column * s.w.step) + s.w.taps[kind.w.taps.begin];
    for (size_t image = row / height; image * height < stop; ++image) {
      const size_t first = std::max(row, image * height + kind.h.outputs.begin);
      const size_t last = std::min(stop, image * height + kind.h.outputs.end);
      for (size_t r = first; r < last; ++r) {
        const size_t i = r - image * height;
        const ptrdiff_t y = static_cast<ptrdiff_t>(image * s.h.source + i * s.h.step) + down;
        const float* pixel = s.images + s.first_channel;
        if (!empty)
          pixel +=
              (y * static_cast<ptrdiff_t>(s.w.source) + right) * static_cast<ptrdiff_t>(s.image_channels);
        float* target =
            t.images + t.first_channel +
            ((image * t.height + t.row0 + i * t.row_step) * t.width + t.column0 + column * t.column_step) *
                t.channels;
        for (size_t j = 0; j < width; ++j) from[at + j] = empty ? pixel : pixel + j * from_step;
        for (size_t j = 0; j < width; ++j) to[at + j] = target + j * to_step;
        at += width;
      }
    }
    if (at > begin) groups.push_back({&kind, begin, at});
  }
}

const float* tap_pixel(const TapJob& job, const float* to, size_t h_tap, size_t w_tap) {
  const TapSource& s = job.source;
  const TapTarget& t = job.target;
  const size_t place = static_cast<size_t>(to - t.images) / t.channels;
  const size_t image = place / (t.height * t.width);
  const size_t i = (place / t.width % t.height - t.row0) / t.row_step;
  const size_t j = (place % t.width - t.column0) / t.column_step;
  const ptrdiff_t y = static_cast<ptrdiff_t>(i * s.h.step) + s.h.taps[h_tap];
  const ptrdiff_t x = static_cast<ptrdiff_t>(j * s.w.step) + s.w.taps[w_tap];
  if (y < 0 || x < 0 || y >= static_cast<ptrdiff_t>(s.h.source) || x >= static_cast<ptrdiff_t>(s.w.source))
    return nullptr;
  const size_t pixel = (image * s.h.source + static_cast<size_t>(y)) * s.w.source + static_cast<size_t>(x);
  return s.images + pixel * s.image_channels + s.first_channel;
}

}  // namespace butterfly::kernels
