// The record of the training in a file of weights, so that they can be evaluated without the trial.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/lab/descriptor/config.h"

namespace normlab {

/// Metadata key of a checkpoint and of files made from one.
inline constexpr const char* kTrainedOnKey = "normlab.trained_on";

struct TrainedOn {
  TrialConfig config;                    // includes the data set, the evaluation transform, the loss and the precision
  std::vector<double> mean, std;         // per channel, for pixel values scaled to 0..1
  std::vector<std::string> class_names;  // in the order of the labels
};

/// The value of kTrainedOnKey: JSON. Bytes of class names that are not UTF-8 become U+FFFD.
std::string to_metadata(const TrainedOn& trained);

/// Reads it back; none if `metadata` lacks the key. `file` names it in InputErrors.
std::optional<TrainedOn> trained_on(const std::map<std::string, std::string>& metadata, const std::string& file);

/// InputError with the differences if the classes of a data set, named `where`, differ from the training's in number,
/// names or order.
void require_same_classes(const TrainedOn& trained, const std::vector<std::string>& class_names,
                          const std::string& where);

}  // namespace normlab
