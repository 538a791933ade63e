// Writes SVG 1.1, element by element.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// Coordinates need no more than hundredths of a pixel: "12.35", "12", never "-0".
std::string svg_number(double value);

struct SvgAttribute {
  std::string_view name;
  std::string value;
  SvgAttribute(std::string_view attribute, double number) : name(attribute), value(svg_number(number)) {}
  SvgAttribute(std::string_view attribute, std::string_view text) : name(attribute), value(text) {}
  SvgAttribute(std::string_view attribute, const char* text) : name(attribute), value(text) {}
};
using SvgAttributes = std::initializer_list<SvgAttribute>;

/// Values and texts are escaped. Every open() wants its close().
class SvgWriter {
 public:
  void open(std::string_view tag, SvgAttributes attributes = {});
  void close();
  /// <tag .../>, or <tag ...><title>hover</title></tag>.
  void element(std::string_view tag, SvgAttributes attributes, std::string_view hover = "");
  /// <tag ...>content</tag>
  void text(std::string_view tag, std::string_view content, SvgAttributes attributes = {});
  /// Words at (x, y), and a line, in the style of a class.
  void words(std::string_view name, double x, double y, std::string_view content) {
    text("text", content, {{"class", name}, {"x", x}, {"y", y}});
  }
  void line(std::string_view name, double x1, double x2, double y1, double y2) {
    element("line", {{"class", name}, {"x1", x1}, {"x2", x2}, {"y1", y1}, {"y2", y2}});
  }
  /// Everything so far; the writer is then empty.
  std::string take();

 private:
  void begin(std::string_view tag, SvgAttributes attributes);
  std::string out_;
  std::vector<std::string> open_;
};

/// What a picture is, for those who do not see it, and where it stands.
struct SvgFrame {
  std::string id;  // unique in the page; ids of title and description begin with it
  std::string title, description;
  double width = 0, height = 0;
  bool standalone = false;  // a file of its own: XML namespace, style and background included
};

/// Opens <svg>; the caller closes it.
void open_picture(SvgWriter& svg, const SvgFrame& frame);

/// The rules for all pictures' classes, for light and dark screens and for print. A page includes them once.
std::string_view picture_style();

/// Pixels that `text` takes at most in a sans-serif of this size, by rule of thumb.
double text_width(std::string_view text, double font_size);

/// `text`, its middle cut out where it is wider than `width`.
std::string fitted(const std::string& text, double width, double font_size);

}  // namespace normlab
