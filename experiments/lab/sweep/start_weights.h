// Finds the weights that a trial starts from.
#pragma once

#include <filesystem>

#include "experiments/lab/descriptor/config.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// Whether it starts from a trial that has no result yet, or failed.
bool waits_for_start(const StartConfig& start, const ResultStore& store);

/// The file of a start: that of the descriptor, or the weights of the trial, which has finished. InputError if that
/// trial has no result, diverged, or has lost its weights.
std::filesystem::path start_weights(const StartConfig& start, const ResultStore& store);

}  // namespace normlab
