// A small SVG writer: shapes in the order they are drawn, text escaped, numbers short.
#pragma once
#include <string>
#include <string_view>

namespace butterfly {

// Escapes &, <, > and quotes.
std::string svg_escape(std::string_view text);

// A picture that grows by calls, in the order in which its shapes are drawn. One thread.
class Svg {
 public:
  Svg(double width, double height);

  void rect(double x, double y, double width, double height, std::string_view fill, double radius = 0,
            std::string_view title = {});
  // `anchor`: start, middle or end. `style` is added to the element, as in "font-weight:bold".
  void text(double x, double y, std::string_view text, double size = 12, std::string_view anchor = "start",
            std::string_view fill = "#222", std::string_view style = {});
  void line(double x1, double y1, double x2, double y2, std::string_view stroke = "#bbb", double width = 1,
            std::string_view dash = {});
  void polyline(std::string_view points, std::string_view stroke, double width);
  std::string finish() const;

 private:
  double width_, height_;
  std::string body_;
};

// Colours that stay apart from each other, also for most colour-blind people; the same index, the same
// colour.
std::string_view palette(size_t index);

// For an axis of time: 1, 2 or 5 times a power of ten, about an eighth of the span; and what stands at it.
double axis_tick(double span_s);
std::string axis_time(double seconds, double tick_s);

// About how wide a text of this size is, for choosing what fits.
double text_width(std::string_view text, double size);

}  // namespace butterfly
