// A trial named by the beginning of its id.
#pragma once

#include <string>
#include <vector>

#include "experiments/results/store.h"

namespace normlab {

/// Ids that begin with `prefix`, of trials on disk and of trials that a plan names, sorted. InputError for a prefix
/// that is not 1 to 64 hexadecimal digits, or that no id begins with.
std::vector<std::string> ids_that_begin(const ResultStore& store, const std::string& prefix);

/// The only one. InputError where several begin so, with what tells them apart.
std::string id_that_begins(const ResultStore& store, const std::string& prefix);

/// The trial of a path to its folder, or of the beginning of its id in `out`. InputError where it is neither.
TrialFolder trial_named(const std::string& folder_or_id, const std::string& out);

/// True for text that may be the beginning of an id, and is no file.
bool may_be_id(const std::string& text);

}  // namespace normlab
