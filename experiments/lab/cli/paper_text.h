// A descriptor's paper section as text.
#pragma once

#include <string>

#include "experiments/lab/descriptor/tested_claim.h"

namespace normlab {

/// Lines of at most 80 columns: the source, then a paragraph per deviation; "" if the descriptor names no paper.
std::string paper_text(const PaperConfig& paper);

}  // namespace normlab
