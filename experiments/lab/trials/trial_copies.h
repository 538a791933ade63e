// Copies of one trial in several places, what they hold together, and how that takes the place of a trial in a folder
// of results.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "experiments/lab/trials/exported.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// Of a copy's file: the file, or the archive's line that holds it.
struct CopiedFile {
  std::filesystem::path file;
  const ExportedTrial* archived = nullptr;
};
using CopiedFiles = std::map<std::filesystem::path, CopiedFile>;  // by path below the trial's folder

/// A trial's result in one place, with all files beside it. Links count as what they lead to.
struct TrialCopy {
  std::string where;  // for messages
  TrialResult result;
  CopiedFiles files;              // without claims, leases, temporary files and notes of removed files
  std::set<std::string> removed;  // files of its result's list that it lacks on purpose
};

/// InputError that names a file that cannot be copied: a pipe, a device, a link that leads nowhere or to a folder
/// around it. The archive of an exported trial must outlive the copy.
TrialCopy copy_of(const TrialFolder& trial, const TrialResult& result);

/// A copy in a folder of unchecked files: without those that do not match their seals, and without a damaged
/// config.json. `attempt`: leaves out this attempt too.
TrialCopy whole_files_of(const TrialFolder& trial, const TrialResult& result, std::int64_t attempt);

/// What several copies hold together. Copies of one training, whose results list the same files, complete each other.
/// Of two trainings, the one counts that finished; of two that did, the first, unless the other has every kind of file
/// that the first one has (weights, optimiser's state, recorded states, curve, correct images) and more. `copies` is
/// not empty. InputError if two finished results contradict each other.
TrialCopy joined_copies(const std::vector<TrialCopy>& copies);

/// The files of the result's list that the copy neither has nor lacks on purpose.
std::vector<std::string> missing_files(const TrialCopy& copy);

/// Whether `there` lacks a file of `joined`, apart from checkpoints that its result does not list.
bool lacks_files(const TrialCopy& there, const TrialCopy& joined);

/// Writes the copy to an empty folder, synced, and compares its files with their seals. InputError if a source changed
/// meanwhile.
void write_copy(const TrialCopy& copy, const std::filesystem::path& folder);

/// Puts the folder `part`, made beside it, in the place of the trial's folder. Without a claim, only if there is none
/// or an empty one. With a claim on the trial, exchanges the two, or where the file system cannot, sets the former
/// aside first (put_back_set_aside()); `part` may be the former afterwards. False, with nothing changed, if another
/// process has changed the trial meanwhile or removed the part.
bool place_copy(const std::filesystem::path& part, const TrialFolder& trial, const Claim* claim);

/// Gives trials back their names that a merge, which was killed in place_copy(), had set aside.
void put_back_set_aside(const ResultStore& store);

/// What merges that were killed, or that lost contact with this folder, left beside the trials.
std::vector<std::filesystem::path> abandoned_parts(const ResultStore& store);

}  // namespace normlab
