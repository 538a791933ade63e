// How the parameters of a row are initialised, as `explain --init` prints it.
#pragma once

#include <string>

#include "experiments/lab/descriptor/experiment.h"

namespace normlab {

/// Prints `text` after `label`; continuation lines are indented to column `indent`.
void print_wrapped(const std::string& label, std::size_t indent, const std::string& text);

/// The initialiser's name in a descriptor.
std::string init_word(const ModelConfig& model);

/// Each parameter's rule, and statistics of the values that are drawn for the trial's seed.
void print_init(const Trial& trial);

}  // namespace normlab
