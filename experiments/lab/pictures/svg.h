// Writes SVG 1.1, element by element.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// Formats a coordinate to hundredths of a pixel: "12.35", "12", never "-0".
std::string svg_number(double value);

struct SvgAttribute {
  std::string_view name;
  std::string value;
  SvgAttribute(std::string_view attribute, double number) : name(attribute), value(svg_number(number)) {}
  SvgAttribute(std::string_view attribute, std::string_view text) : name(attribute), value(text) {}
  SvgAttribute(std::string_view attribute, const char* text) : name(attribute), value(text) {}
};
using SvgAttributes = std::initializer_list<SvgAttribute>;

/// Escapes values and texts. Each open() needs a close().
class SvgWriter {
 public:
  void open(std::string_view tag, SvgAttributes attributes = {});
  void close();
  /// <tag .../>, or <tag ...><title>hover</title></tag>.
  void element(std::string_view tag, SvgAttributes attributes, std::string_view hover = "");
  /// <tag ...>content</tag>
  void text(std::string_view tag, std::string_view content, SvgAttributes attributes = {});
  /// Text at (x, y), and a line, each in the style of a CSS class.
  void words(std::string_view name, double x, double y, std::string_view content) {
    text("text", content, {{"class", name}, {"x", x}, {"y", y}});
  }
  void line(std::string_view name, double x1, double x2, double y1, double y2) {
    element("line", {{"class", name}, {"x1", x1}, {"x2", x2}, {"y1", y1}, {"y2", y2}});
  }
  /// Returns the output so far and empties the writer.
  std::string take();

 private:
  void begin(std::string_view tag, SvgAttributes attributes);
  std::string out_;
  std::vector<std::string> open_;
};

/// CSS rules for the classes of all pictures, for light and dark screens and for print. A page includes them once.
std::string_view picture_style();

/// An upper estimate of the width of `text` in pixels, in a sans-serif font of this size.
double text_width(std::string_view text, double font_size);

/// `text`, with its middle cut out if it is wider than `width`.
std::string fitted(const std::string& text, double width, double font_size);

}  // namespace normlab
