// Captions of the scenes of "shapes".
#pragma once

#include "experiments/lab/data/scenes.h"

namespace normlab {

/// "a red disc at the top left and two blue squares": the largest object with its position, then the others.
std::string scene_caption(const std::vector<SceneObject>& objects);

/// All words that captions and the names of the classes may have.
std::vector<std::string> scene_words();

}  // namespace normlab
