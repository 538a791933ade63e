// Fills a network with the weights that its trial starts from.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/lab/descriptor/experiment.h"
#include "nn/model/parameters.h"

namespace normlab {

/// Loads `path` into `weights`, which initialise() has filled. Optimiser state is not taken over. Returns the lines
/// of a report on every tensor that was not taken as it is. InputError for a file that does not fit, names the tensors
/// and what to do; also if the file is not the one that `config.start` identifies, or has no finite weights. A message
/// names a few tensors.
std::vector<std::string> load_start(const TrialConfig& config, const std::filesystem::path& path,
                                    ParameterSet& weights);

/// load_start() into networks that are then dropped, once per file, network and rule: finds in advance what the given
/// trials would refuse. The message begins with the trial's label.
void check_start_files(const Experiment& experiment, const std::vector<std::size_t>& trials);

}  // namespace normlab
