#include "experiments/lab/data/scenes.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "experiments/lab/data/canvas.h"
#include "experiments/lab/metrics/zero_shot.h"

namespace normlab {
namespace {

// Lengths are in eighths of a pixel, colours in levels of 255.
constexpr int kLargeMin = 44, kLargeMax = 52, kSmallMin = 27, kSmallMax = 30;  // half the side of an object's box
constexpr int kGap = 12;   // between two boxes, in x or in y: a pixel of ground
constexpr int kClear = 8;  // of a centre from the lines between thirds, so that its position is plain
constexpr int kMost = 4;   // objects
constexpr int kNoise = 14, kGroundMin = 112, kGroundMax = 144, kTint = 10, kColourJitter = 14;
constexpr int kExtent = Canvas::kSide * Canvas::kUnit;
constexpr Colour kLevels[] = {{205, 40, 40},  {40, 150, 50},  {45, 70, 215},   {225, 205, 45},
                              {145, 50, 175}, {50, 200, 215}, {238, 238, 238}, {18, 18, 18}};

bool inside(SceneKind kind, int radius, int x, int y) {
  if (kind == SceneKind::disc) return in_disc(x, y, radius);
  if (kind == SceneKind::cross) return in_cross(x, y, radius, radius * 5 / 16);
  if (kind == SceneKind::square) return std::max(std::abs(x), std::abs(y)) <= radius * 7 / 8;
  if (kind == SceneKind::triangle) return 2 * std::abs(x) <= y + radius && y <= radius * 3 / 4;
  return in_disc(x, y, radius) && !in_disc(x, y, radius * 9 / 16);  // ring
}

/// A coordinate of a centre in this third of the image.
int coordinate(PictureDraws& draws, int third, int radius) {
  const int low = std::max(radius, third * kExtent / 3 + kClear);
  return draws.between(low, std::min(kExtent - radius, (third + 1) * kExtent / 3 - kClear));
}

void place(PictureDraws& draws, int position, SceneObject& object) {
  object.x = coordinate(draws, position % 3, object.radius);
  object.y = coordinate(draws, position / 3, object.radius);
}

bool touches(const SceneObject& a, const SceneObject& b) {
  return std::max(std::abs(a.x - b.x), std::abs(a.y - b.y)) < a.radius + b.radius + kGap;
}

constexpr std::string_view kCounts[] = {"", "a", "two", "three"};

std::string plural_of(std::string_view kind) { return concat(kind, kind.ends_with('s') ? "es" : "s"); }

template <class Word>
std::vector<std::string> names() {
  return {kWords<Word>.begin(), kWords<Word>.end()};
}

}  // namespace

ScenePosition SceneObject::position() const {
  return static_cast<ScenePosition>(y * 3 / kExtent * 3 + x * 3 / kExtent);
}

std::vector<SceneObject> draw_scene(std::uint64_t seed, const std::string& split, std::int64_t index, ShapesLabel label,
                                    std::uint8_t* rgb, std::uint8_t* mask) {
  PictureDraws draws(stream_key(seed, concat("scenes_", word_of(label)), split), index);
  const auto property = [&](ShapesLabel of) {  // in the order of its classes
    const auto classes = static_cast<int>(kShapesClasses[static_cast<std::size_t>(of)]);
    const int drawn = draws.between(0, classes - 1);
    return of == label ? static_cast<int>(index % classes) : drawn;
  };
  const auto look = [&] {
    const int kind = property(ShapesLabel::kind);
    return SceneObject{static_cast<SceneKind>(kind), static_cast<SceneColour>(property(ShapesLabel::colour))};
  };
  std::vector<SceneObject> objects{look()};
  objects[0].radius = draws.between(kLargeMin, kLargeMax);
  place(draws, property(ShapesLabel::position), objects[0]);
  const auto count = static_cast<std::size_t>(property(ShapesLabel::number) + 1);
  label = ShapesLabel::relation;  // the other objects are random in all respects
  while (objects.size() < count) {
    SceneObject next = look();
    next.radius = draws.between(kSmallMin, kSmallMax);
    do {  // there is room for kMost objects, wherever the others are
      place(draws, property(ShapesLabel::position), next);
    } while (std::any_of(objects.begin(), objects.end(), [&](const SceneObject& o) { return touches(o, next); }));
    objects.push_back(next);
  }

  const int grey = draws.between(kGroundMin, kGroundMax);
  const auto near = [&](Colour colour, int jitter) {
    for (int& channel : colour) channel += draws.between(-jitter, jitter);
    return colour;
  };
  Canvas canvas(near({grey, grey, grey}, kTint));
  for (const SceneObject& object : objects)
    canvas.paint(
        object.x, object.y, object.radius, near(kLevels[static_cast<std::size_t>(object.colour)], kColourJitter),
        [&](int x, int y) { return inside(object.kind, object.radius, x, y); },
        static_cast<std::uint8_t>(1 + static_cast<int>(object.kind)));
  canvas.write(draws, kNoise, rgb);
  if (mask != nullptr) std::copy(canvas.marks().begin(), canvas.marks().end(), mask);
  return objects;
}

std::vector<std::string> scene_classes(ShapesLabel label) {
  if (label == ShapesLabel::kind) return names<SceneKind>();
  if (label == ShapesLabel::colour) return names<SceneColour>();
  if (label == ShapesLabel::position) return names<ScenePosition>();
  if (label == ShapesLabel::relation) throw InputError("images of shapes by relation are no scenes");
  std::vector<std::string> numbers;
  for (int n = 1; n <= kMost; ++n) numbers.push_back(std::to_string(n));
  return numbers;
}

std::string scene_caption(const std::vector<SceneObject>& objects) {
  const SceneObject& largest = objects.at(0);
  std::string text =
      concat("a ", word_of(largest.colour), " ", word_of(largest.kind), " at the ", word_of(largest.position()));
  const auto alike = [](const SceneObject& a) {
    return [&a](const SceneObject& b) { return a.kind == b.kind && a.colour == b.colour; };
  };
  for (auto at = objects.begin() + 1; at != objects.end(); ++at) {
    if (std::any_of(objects.begin() + 1, at, alike(*at))) continue;
    const auto count = static_cast<std::size_t>(std::count_if(at, objects.end(), alike(*at)));
    text += concat(" and ", kCounts[count], " ", word_of(at->colour), " ",
                   count == 1 ? std::string(word_of(at->kind)) : plural_of(word_of(at->kind)));
  }
  return plain_text(text);
}

std::vector<std::string> scene_words() {
  std::set<std::string> words{"a", "and", "at", "the", "two", "three", "1", "2", "3", "4"};
  for (const std::string_view kind : kWords<SceneKind>) words.insert({std::string(kind), plural_of(kind)});
  for (const std::string_view colour : kWords<SceneColour>) words.emplace(colour);
  for (const std::string_view position : kWords<ScenePosition>) {
    const std::string plain = plain_text(position);
    words.insert({plain.substr(0, plain.find(' ')), plain.substr(plain.find(' ') + 1)});
  }
  return {words.begin(), words.end()};
}

}  // namespace normlab
