// Finds a trial by a prefix of its id.
#pragma once

#include <string>
#include <vector>

#include "experiments/lab/trials/store.h"

namespace normlab {

/// Sorted, of trials on disk and in plans. InputError if the prefix is not 1 to 64 hexadecimal digits or matches no id.
std::vector<std::string> ids_that_begin(const ResultStore& store, const std::string& prefix);

/// InputError if several match, with what distinguishes them.
std::string id_that_begins(const ResultStore& store, const std::string& prefix);

/// By folder path, or by id prefix in `out`. InputError if it is neither.
TrialFolder trial_named(const std::string& folder_or_id, const std::string& out);

/// True if the text could be an id prefix and is not an existing file.
bool may_be_id(const std::string& text);

}  // namespace normlab
