// How two trials or two descriptors differ.
#pragma once

#include <string>

#include "experiments/lab/cli/descriptor_options.h"

namespace normlab {

/// Prints config, formula, cost, metrics and environment where they differ. `a` and `b` are both ids of trials in
/// options.out, or their first digits, or both descriptors; else InputError.
void print_difference(const std::string& a, const std::string& b, const DescriptorOptions& options);

}  // namespace normlab
