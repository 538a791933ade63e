// Options that several commands share.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/lab/base/files.h"
#include "experiments/lab/cli/command_line.h"
#include "experiments/lab/data/dataset.h"
#include "experiments/lab/sweep/stages.h"

namespace normlab {

struct DataSource;    // data/data_source.h
struct TableOptions;  // tables/table_model.h

/// Of every command that reads a descriptor, or an archive that holds one.
struct DescriptorOptions {
  std::string file;
  std::vector<std::string> sets;
  std::string data, out = "results", from;

  void add_file(Command& command, bool required = true) {
    const Option argument = command.add_option(
        "descriptor", file, "JSON file that describes the experiment, or an archive of `normlab export` that holds it");
    if (required) argument.required();
    add_reading(command);
  }
  /// For commands that add their own descriptor arguments. Returns --set.
  Option add_reading(Command& command) {
    command.add_option("--data", data, "folder of the data sets (default: NORMLAB_DATA, else ./data)");
    return add_sets(command);
  }
  Option add_sets(Command& command) {
    return command
        .add_option("--set", sets,
                    "path=value to override a key of the descriptor, as --set train.epochs=2; may be repeated")
        .one_each();
  }
  Option add_out(Command& command) {
    return command.add_option("--out", out, "folder of the results").show_default().path();
  }
  /// --out, or --from instead.
  void add_out_or_from(Command& command) {
    command.add_option("--from", from, "read the results from an archive of `normlab export` instead of a folder")
        .excludes(add_out(command));
  }

  std::optional<std::filesystem::path> data_root() const {
    return data.empty() ? std::nullopt : std::optional<std::filesystem::path>(data);
  }
  /// Whether the descriptor is that of an archive.
  bool archived() const { return is_archive(file); }
  static bool is_archive(const std::filesystem::path& descriptor) { return descriptor.extension() == ".jsonl"; }

  /// For commands that train or plan: the data say how many classes they have, and the results where there are none.
  Experiment load(const std::string& descriptor) const;
  Experiment load() const { return load(file); }
  /// For commands that read results, which say how many classes the data had. With the later trials that they lead to.
  Experiment load_staged(const ResultStore& results) const;
  Experiment load_staged() const { return load_staged(store()); }
  /// InputError for --set and --from beside folders of results.
  void refuse_for_folders(const std::string& these) const;
  /// The files of a descriptor and the archives, for require_output().
  std::vector<std::filesystem::path> inputs(const Experiment* experiment) const {
    std::vector<std::filesystem::path> all;
    if (experiment != nullptr) all = experiment->files;
    if (!std::filesystem::is_directory(from)) {
      all.emplace_back(from);
      return all;
    }
    for (const auto& archive : files_below(from))
      if (archive.extension() == ".jsonl") all.push_back(archive);
    return all;
  }
  ResultStore store() const {
    if (!from.empty()) return ResultStore::exported(from);
    return archived() ? ResultStore::exported(file) : ResultStore(out);
  }

 private:
  Experiment read(const std::filesystem::path& descriptor, const ResultStore& results,
                  const ClassCounts& classes) const;
};

/// Which data set.
void add_data_source(Command& command, DataSource& source);
/// --labels-from and --class-order; `change` is called with each.
void add_label_options(
    Command& command, std::optional<int>& labels_from, std::string& class_order,
    const std::function<void(Option)>& change = [](Option) {});

// Of commands that build a table model.

/// --metric, --select, --last, --diverged: which number represents a run. Returns --last.
Option add_selection(Command& command, TableOptions& options);
/// InputError for a --last that nothing would read.
void refuse_unread_last(const Option& last, const TableOptions& options);

/// --where, --sort.
void add_row_choice(Command& command, TableOptions& options);

/// --family, --detect, --equivalent, --to-match, --learned, --bootstrap, --lr-sensitivity.
void add_statistics(Command& command, TableOptions& options);

}  // namespace normlab
