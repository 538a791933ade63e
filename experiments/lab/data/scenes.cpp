#include "experiments/lab/data/scenes.h"

#include "core/error.h"
#include "experiments/lab/data/canvas.h"

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
  switch (kind) {
    case SceneKind::disc:
      return in_disc(x, y, radius);
    case SceneKind::cross:
      return in_cross(x, y, radius, radius * 5 / 16);
    case SceneKind::square:
      return std::max(std::abs(x), std::abs(y)) <= radius * 7 / 8;
    case SceneKind::triangle:
      return 2 * std::abs(x) <= y + radius && y <= radius * 3 / 4;
    case SceneKind::ring:
      break;
  }
  return in_disc(x, y, radius) && !in_disc(x, y, radius * 9 / 16);
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

std::int64_t scene_class(const std::vector<SceneObject>& objects, ShapesLabel label) {
  const SceneObject& largest = objects.at(0);
  switch (label) {
    case ShapesLabel::kind:
      return static_cast<std::int64_t>(largest.kind);
    case ShapesLabel::colour:
      return static_cast<std::int64_t>(largest.colour);
    case ShapesLabel::position:
      return static_cast<std::int64_t>(largest.position());
    case ShapesLabel::number:
      return std::ssize(objects) - 1;
    case ShapesLabel::relation:
      break;
  }
  throw InputError("images of shapes by relation are no scenes");
}

std::vector<std::string> scene_classes(ShapesLabel label) {
  switch (label) {
    case ShapesLabel::kind:
      return names<SceneKind>();
    case ShapesLabel::colour:
      return names<SceneColour>();
    case ShapesLabel::position:
      return names<ScenePosition>();
    case ShapesLabel::number: {
      std::vector<std::string> numbers;
      for (int n = 1; n <= kMost; ++n) numbers.push_back(std::to_string(n));
      return numbers;
    }
    case ShapesLabel::relation:
      break;
  }
  throw InputError("images of shapes by relation are no scenes");
}

}  // namespace normlab
