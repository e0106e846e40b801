#include "base/svg.h"

#include <fmt/format.h>

#include <cmath>

namespace butterfly {

std::string svg_escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

Svg::Svg(double width, double height) : width_(width), height_(height) {}

void Svg::rect(double x, double y, double width, double height, std::string_view fill, double radius,
               std::string_view title) {
  body_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"", x, y,
                       width, height, fill);
  if (radius > 0) body_ += fmt::format(" rx=\"{:.1f}\"", radius);
  body_ += title.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", svg_escape(title));
}

void Svg::text(double x, double y, std::string_view text, double size, std::string_view anchor,
               std::string_view fill, std::string_view style) {
  body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:.0f}\" fill=\"{}\"", x, y, size, fill);
  if (anchor != "start") body_ += fmt::format(" text-anchor=\"{}\"", anchor);
  if (!style.empty()) body_ += fmt::format(" style=\"{}\"", style);
  body_ += fmt::format(">{}</text>\n", svg_escape(text));
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view stroke, double width,
               std::string_view dash) {
  body_ += fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{}\"", x1,
      y1, x2, y2, stroke, width);
  if (!dash.empty()) body_ += fmt::format(" stroke-dasharray=\"{}\"", dash);
  body_ += "/>\n";
}

void Svg::polyline(std::string_view points, std::string_view stroke, double width) {
  body_ += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"/>\n", points,
                       stroke, width);
}

std::string Svg::finish() const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\" "
      "font-family=\"DejaVu Sans, Verdana, sans-serif\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"#ffffff\"/>\n{2}"
      "</svg>\n",
      width_, height_, body_);
}

std::string_view palette(size_t index) {
  // Paul Tol's "muted" set, and lighter ones behind it.
  static constexpr std::string_view kColours[] = {
      "#4477AA", "#CC6677", "#228833", "#DDAA33", "#66CCEE", "#AA3377", "#999933", "#44AA99",
      "#EE8866", "#332288", "#77AADD", "#882255", "#AAAA00", "#117733", "#BB5566", "#6699CC"};
  return kColours[index % std::size(kColours)];
}

double axis_tick(double span_s) {
  const double raw = span_s / 8, power = std::pow(10, std::floor(std::log10(raw)));
  for (double step : {1.0, 2.0, 5.0})
    if (step * power >= raw) return step * power;
  return 10 * power;
}

std::string axis_time(double seconds, double tick_s) {
  if (tick_s >= 1) return fmt::format("{:.0f} s", seconds);
  if (seconds >= 10) return fmt::format("{:.{}f} s", seconds, tick_s >= 0.1 ? 1 : 3);
  if (tick_s >= 1e-3) return fmt::format("{:.0f} ms", seconds * 1e3);
  return fmt::format("{:.1f} ms", seconds * 1e3);
}

double text_width(std::string_view text, double size) {
  size_t characters = 0;
  for (const char c : text) characters += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return static_cast<double>(characters) * size * 0.62;
}

}  // namespace butterfly
