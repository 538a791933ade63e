// Options that name the weights of a trial or a file.
#pragma once

#include <optional>
#include <string>

#include "experiments/lab/cli/commands.h"
#include "experiments/lab/trials/trial_result.h"
#include "experiments/lab/weights/convert_files.h"
#include "experiments/lab/weights/trained_on.h"

namespace normlab {

struct WeightsSource {
  std::string trial, out = "results", file;
  std::optional<std::string> model;
  bool ema = false;

  void add_to(Command& command);

  struct Loaded {
    WeightFile file;  // still with the averages that --ema asks for
    ModelConfig network;
    std::optional<TrainedOn> trained;
    std::optional<TrialResult> result;  // of a trial that has one
  };
  /// Sets `file`, if a trial is given. `command` names the command in errors; `data_option` the option for other images
  /// than the training's, empty if it is given. InputError if both or neither of trial and file are given, if the
  /// tensors have another program's names, or if nothing states the images.
  Loaded load(const std::string& command, const std::string& data_option);
};

}  // namespace normlab
