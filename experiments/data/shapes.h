// "shapes": small pictures made from a seed, always at hand. Ten classes say how a disc and a cross stand to each
// other: in line along one of four directions, near or far, or one upon the other. Colours and brightness say nothing
// about the class and place says little, so a linear classifier of pixels gets nowhere.
#pragma once

#include "experiments/data/image_index.h"
#include "experiments/descriptor/config.h"

namespace normlab {

inline constexpr std::int64_t kShapesSide = 32, kShapesClasses = 10;

/// One 32x32 RGB picture of class index mod 10, [32, 32, 3] at `rgb`: a function of (seed, split, index) alone, by
/// integer arithmetic, so that every machine makes the same bytes.
void draw_shapes(std::uint64_t shapes_seed, const std::string& split, std::int64_t index, std::uint8_t* rgb);

std::vector<std::string> shapes_classes();

/// The slice of `train_images` ("train") or `eval_images` ("test") pictures; keys are six-digit indices. A left-right
/// flip would turn one class into another. InputError: another split, fewer than one image or more than a million.
ImageSet make_shapes(const DatasetConfig& config, const SliceRequest& request);

}  // namespace normlab
