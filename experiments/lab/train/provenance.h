// The provenance in a trial's result.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/lab/data/dataset.h"
#include "experiments/lab/train/checkpoint.h"
#include "experiments/lab/train/trial.h"

namespace normlab {

/// Program, machine, device and data (of the name `dataset`) of a trial that began at `started` (utc_time()); see
/// TrialResult::provenance.
std::map<std::string, std::string> provenance(const TrialOptions& options, const std::string& dataset,
                                              const DataPair& data, const CheckpointInfo& info,
                                              const std::string& started);

/// "train 00017.jpg: not a JPEG": all images of any slice that cannot be decoded, with the reason.
std::vector<std::string> describe_bad_images(const DataPair& data);

/// "" without 16-bit grayscale images; else a line feed and a sentence that says how older programs read them.
std::string gray16_note(const DataPair& data);
/// What may explain another data_hash() of equal files: gray16_note(), else note_of_labels().
std::string note_of_data(const DatasetConfig& config, const DataPair& data);

}  // namespace normlab
