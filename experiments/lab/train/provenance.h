// What a trial's result says besides its metrics, and remarks on its data.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/lab/data/dataset.h"
#include "experiments/lab/train/checkpoint.h"
#include "experiments/lab/train/trial.h"

namespace normlab {

/// The result of a trial that began at `started` (utc_time()), without metrics: what `info` knows, and program, machine,
/// device and data.
TrialResult result_so_far(const TrialConfig& config, const TrialOptions& options, const DataPair& data,
                          const CheckpointInfo& info, const std::string& started);

/// "train 00017.jpg: not a JPEG": all images of any slice that cannot be decoded, with the reason.
std::vector<std::string> describe_bad_images(const DataPair& data);

/// What a trial's log should say of its data, a line each.
std::vector<std::string> remarks_on(const DatasetConfig& config, const DataPair& data);

/// "" without 16-bit grayscale images; else a line feed and a sentence that says how older programs read them.
std::string gray16_note(const DataPair& data);
/// What may explain another data_hash() of equal files: gray16_note(), else note_of_labels().
std::string note_of_data(const DatasetConfig& config, const DataPair& data);

}  // namespace normlab
