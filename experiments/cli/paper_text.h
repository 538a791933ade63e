// What a descriptor says of its paper, for people.
#pragma once

#include <string>

#include "experiments/descriptor/paper.h"

namespace normlab {

/// Lines of at most 80 columns: the source, and one paragraph a deviation; "" where the descriptor names no paper.
std::string paper_text(const PaperConfig& paper);

}  // namespace normlab
