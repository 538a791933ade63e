// Datasets from a seed: "shapes" and "gratings", 32x32 RGB images.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/lab/data/image_index.h"
#include "experiments/lab/descriptor/dataset_config.h"

namespace normlab {

std::vector<std::string> generated_classes(const DatasetConfig& config);

/// A slice of the `train_images` ("train") or `eval_images` ("test") images of `config.name`; keys are six-digit
/// indices. A left-right flip can turn one class into another. InputError: another split, fewer than one image or
/// more than a million.
ImageSet make_generated(const DatasetConfig& config, const SliceRequest& request);

// "gratings": two striped discs, one fine and one coarse, on a background of other stripes. The ten classes combine
// five directions of the fine stripes with coarse stripes along or across them. Phases, positions, contrasts and
// colours are random, so a linear classifier of pixels learns almost nothing.

/// One 32x32 RGB image of class index mod 10, [32, 32, 3] at `rgb`. Depends only on (seed, split, index); integer
/// arithmetic gives the same bytes on every machine.
void draw_gratings(std::uint64_t seed, const std::string& split, std::int64_t index, std::uint8_t* rgb);

std::vector<std::string> gratings_classes();

// "shapes": a disc and a cross, aligned along one of four directions, near or far, or one on top of the other:
// ten classes. Colours and brightness carry no information about the class and position little, so a linear
// classifier of pixels fails.

/// As draw_gratings().
void draw_shapes(std::uint64_t shapes_seed, const std::string& split, std::int64_t index, std::uint8_t* rgb);

std::vector<std::string> shapes_classes();

}  // namespace normlab
