// The frame of all HTML pages, which need neither network nor server, and the elements of pictures.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// From the doctype to <body>, with both style sheets. The Content-Security-Policy allows the script of page_end()
/// and embedded images alone. The page reloads after `reload_seconds`; 0: never.
std::string page_start(const std::string& title, int reload_seconds = 0);
/// The end of a page whose first table, below #results, is sorted and filtered by a script, if the browser runs it.
std::string page_end();

/// <tag class="name">escaped text</tag>
std::string html_element(std::string_view tag, std::string_view text, std::string_view name = "");

/// A table of headings and rows, whose first cells are headings too. caption: "" for none.
std::string html_table(const std::vector<std::vector<std::string>>& rows, const std::string& caption = "");

// SVG 1.1, element by element.

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

/// `text` in lines of at most `width`.
std::vector<std::string> lines_of(const std::string& text, double width, double font_size);
/// `text`, with its middle cut out if it is wider than `width`.
std::string fitted(const std::string& text, double width, double font_size);

}  // namespace normlab
