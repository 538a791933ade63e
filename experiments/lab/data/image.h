// Decoded images, and boxes in them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace normlab {

/// An encoded image file.
using FileBytes = std::span<const std::uint8_t>;

struct ImageSize {
  std::int64_t height = 0, width = 0;
  bool operator==(const ImageSize&) const = default;
};

/// Rows top .. top + height, columns left .. left + width.
struct Box {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
  bool operator==(const Box&) const = default;
};

/// A box of an image decoded at reduced size, in pixels of the original: `shrink` of them make one decoded pixel.
/// Its origin is that of the decoded image. Edges may fall inside a decoded pixel.
struct ScaledBox {
  Box box;
  std::int64_t shrink = 1;
  ScaledBox() = default;
  ScaledBox(const Box& b, std::int64_t s = 1) : box(b), shrink(s) {}  // NOLINT: a box of an image of full size
  bool operator==(const ScaledBox&) const = default;
  /// The decoded pixels that it touches.
  Box cover() const {
    const std::int64_t top = box.top / shrink, left = box.left / shrink;
    return {top, left, (box.top + box.height + shrink - 1) / shrink - top,
            (box.left + box.width + shrink - 1) / shrink - left};
  }
};

/// Whether the box is non-empty and inside the image.
inline bool is_inside(const Box& box, const ImageSize& image) {
  return box.top >= 0 && box.left >= 0 && box.height >= 1 && box.width >= 1 && box.height <= image.height - box.top &&
         box.width <= image.width - box.left;
}

/// More is refused before memory is allocated. Pillow's limit.
constexpr std::int64_t kMaxImagePixels = 178956970;

/// RGB, [height, width, 3], one byte per value. Keeps its memory when it is reused.
struct Image {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;

  static constexpr std::int64_t kChannels = 3;
  void resize(std::int64_t new_height, std::int64_t new_width) {
    height = new_height;
    width = new_width;
    pixels.resize(static_cast<std::size_t>(height * width * kChannels));
  }
  std::uint8_t* row(std::int64_t y) { return pixels.data() + y * width * kChannels; }
  const std::uint8_t* row(std::int64_t y) const { return pixels.data() + y * width * kChannels; }
};

/// Messages for an image above kMaxImagePixels and for a box outside its image.
inline std::string too_many_pixels(const ImageSize& size) {
  return "has " + std::to_string(size.width) + "x" + std::to_string(size.height) +
         " pixels by its header; the limit is " + std::to_string(kMaxImagePixels);
}
inline std::string box_outside(const Box& box, const ImageSize& size) {
  return "rows " + std::to_string(box.top) + " and " + std::to_string(box.height) + " more, columns " +
         std::to_string(box.left) + " and " + std::to_string(box.width) + " more are not a box inside " +
         std::to_string(size.width) + "x" + std::to_string(size.height) + " pixels";
}

}  // namespace normlab
