// The figures of what the probes measured; no charts where nothing was measured.
#pragma once

#include <vector>

#include "experiments/lab/pictures/figures.h"

namespace normlab {

std::vector<Chart> draw_xspp(const FigureInput& input);
std::vector<Chart> draw_gradients(const FigureInput& input);
std::vector<Chart> draw_embedding(const FigureInput& input);
std::vector<Chart> draw_updates(const FigureInput& input);
std::vector<Chart> draw_attention(const FigureInput& input);
std::vector<Chart> draw_activations(const FigureInput& input);
std::vector<Chart> draw_mapping(const FigureInput& input);
std::vector<Chart> draw_stem_scale(const FigureInput& input);

}  // namespace normlab
