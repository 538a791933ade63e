// What a file of weights says of the training that they are from, so that it can be evaluated without that training.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/descriptor/config.h"

namespace normlab {

/// Metadata key of a checkpoint and of the files that are made from one.
inline constexpr const char* kTrainedOnKey = "normlab.trained_on";

struct TrainedOn {
  TrialConfig config;                    // names the data set, the evaluation transform, the loss and the precision
  std::vector<double> mean, std;         // of each channel, where a pixel of 255 is 1
  std::vector<std::string> class_names;  // in the order of the labels
};

/// The value of kTrainedOnKey: JSON. Bytes of class names that are not UTF-8 become U+FFFD.
std::string to_metadata(const TrainedOn& trained);

/// Reads it back; none where `metadata` lacks the key. `file` names it in InputErrors.
std::optional<TrainedOn> trained_on(const std::map<std::string, std::string>& metadata, const std::string& file);

/// InputError with the differences where a data set, which `where` names, has classes of another number, other names or
/// another order than the training.
void require_same_classes(const TrainedOn& trained, const std::vector<std::string>& class_names,
                          const std::string& where);

}  // namespace normlab
