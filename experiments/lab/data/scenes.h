// Scenes of "shapes" with a `dataset.label` other than relation: one to four objects that do not touch, on a noisy grey
// background. One object is larger than the others; its kind, colour and position are the labels of that name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/words.h"
#include "experiments/lab/descriptor/dataset_config.h"

namespace normlab {

enum class SceneKind : std::uint8_t { disc, cross, square, triangle, ring };
constexpr auto stated_words(SceneKind) { return words<SceneKind>("disc", "cross", "square", "triangle", "ring"); }
enum class SceneColour : std::uint8_t { red, green, blue, yellow, purple, cyan, white, black };
constexpr auto stated_words(SceneColour) {
  return words<SceneColour>("red", "green", "blue", "yellow", "purple", "cyan", "white", "black");
}
/// The part of the image, divided into thirds, that holds the object's centre.
enum class ScenePosition : std::uint8_t {
  top_left,
  top,
  top_right,
  left,
  centre,
  right,
  bottom_left,
  bottom,
  bottom_right
};
constexpr auto stated_words(ScenePosition) {
  return words<ScenePosition>("top_left", "top", "top_right", "left", "centre", "right", "bottom_left", "bottom",
                              "bottom_right");
}

struct SceneObject {
  SceneKind kind{};
  SceneColour colour{};
  int x = 0, y = 0, radius = 0;  // of the centre, from the left and the top; in eighths of a pixel

  ScenePosition position() const;
  bool operator==(const SceneObject&) const = default;
};

/// Image `index` of a split: its pixels [32, 32, 3] at `rgb` and its objects, the largest first. `mask`, if not null,
/// receives the kind of the object at each pixel [32, 32]: 1 + SceneKind where an object covers half of it or more, 0
/// elsewhere. The class is index mod scene_classes(label).size(); everything else is random. Depends only on (seed,
/// split, index, label); integer arithmetic gives the same bytes on every machine. The label is not relation.
std::vector<SceneObject> draw_scene(std::uint64_t seed, const std::string& split, std::int64_t index, ShapesLabel label,
                                    std::uint8_t* rgb, std::uint8_t* mask = nullptr);

/// In the order of the classes: kinds, colours, "1" to "4", or positions.
std::vector<std::string> scene_classes(ShapesLabel label);

/// "a red disc at the top left and two blue squares": the largest object with its position, then the others.
std::string scene_caption(const std::vector<SceneObject>& objects);

/// All words that captions and the names of the classes may have.
std::vector<std::string> scene_words();

}  // namespace normlab
