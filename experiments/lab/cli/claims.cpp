#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>

#include "core/error.h"
#include "core/words.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/cli/device_option.h"
#include "experiments/lab/cli/output_file.h"
#include "experiments/lab/ledger/page.h"
#include "experiments/lab/ledger/printed.h"
#include "experiments/lab/sweep/runner.h"
#include "experiments/lab/sweep/signals.h"
#include "experiments/lab/sweep/slurm.h"
#include "experiments/lab/sweep/trial_seconds.h"
#include "experiments/lab/tables/sweep_table.h"

namespace normlab {
namespace {

enum class LedgerFormat : std::uint8_t { text, markdown, json, html, svg };
constexpr auto stated_words(LedgerFormat) { return words<LedgerFormat>("text", "markdown", "json", "html", "svg"); }

struct ClaimsCommand {
  std::vector<std::string> numbers;
  std::optional<std::string> folder_given;
  std::string folder, output = "-";
  DescriptorOptions descriptor;
  RunOptions options;
  double gflops = 0;
  bool plan = false, run = false, printed = false;
  LedgerFormat format = LedgerFormat::text;

  int operator()() {
    if (run && !descriptor.from.empty())
      throw InputError(fmt::format(
          "--run: writes to a folder of results, so it needs --out instead of --from; `normlab merge {} --out results` "
          "copies there what the archives hold",
          descriptor.from));
    if (printed && (format == LedgerFormat::html || format == LedgerFormat::svg))
      throw InputError(fmt::format("--printed: cannot be written as {}; use text, markdown or json", word_of(format)));
    folder = folder_given.value_or(printed ? "experiments/printed" : "experiments/claims");
    const std::vector<std::filesystem::path> files = descriptors();
    if (plan) return print_plan(files);
    Inputs inputs = descriptor.inputs(nullptr);
    inputs.insert(inputs.end(), files.begin(), files.end());
    require_output(output, inputs);  // before a training
    int code = 0;
    if (run)
      for (const auto& file : probing_first(files))
        if (const int ended = run_missing(file); ended != 0) {
          code = std::max(code, ended);
          if (stop_requested()) return stop_exit_code();
        }
    const ResultStore store = descriptor.store();
    std::vector<LedgerLine> lines;
    std::vector<PrintedSource> sources;
    for (const auto& file : files) {
      const Experiment experiment = load(file, store);
      note_tabled_seeds(experiment, store);
      inputs.insert(inputs.end(), experiment.files.begin(), experiment.files.end());
      if (printed) {
        PrintedSource source = judge_printed(experiment, store);
        source.command = "normlab run " + file.string();
        code = std::max(code, told(source.name, source.problems));
        sources.push_back(std::move(source));
        continue;
      }
      for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::cuda}) {
        const std::filesystem::path times = timings(experiment.stem, device);
        if (device != DeviceKind::cpu && !std::filesystem::exists(times)) continue;
        inputs.push_back(times);
        LedgerLine line = judge_claim(experiment, store, times);
        line.command = command_of(file, line.claim, device);
        code = std::max(code, told("claim " + line.number, line.problems));
        lines.push_back(std::move(line));
      }
    }
    write_output(output, printed ? rendered(sources) : rendered(lines), inputs);
    return code;
  }

 private:
  std::map<std::filesystem::path, Experiment> loaded_;

  static int told(const std::string& where, const std::set<std::string>& problems) {
    for (const std::string& problem : problems) tell("{}: {}\n", where, problem);
    return problems.empty() ? 0 : static_cast<int>(ExitCode::bad_input);
  }

  /// A claim's number, or the name of a descriptor of printed numbers. "" if the file is neither.
  std::string name_of(const std::filesystem::path& path) const {
    if (path.extension() != ".json") return "";
    const std::string stem = path.stem().string();
    if (printed) return stem;
    if (stem.find_first_of("0123456789") != 0) return "";
    const std::size_t zero = stem.find_first_not_of('0');
    return stem.substr(std::min(zero, stem.size()), stem.find('-') - std::min(zero, stem.size()));
  }

  /// In the order of their numbers or names; those of `numbers` only, if any.
  std::vector<std::filesystem::path> descriptors() const {
    if (!std::filesystem::is_directory(folder))
      throw InputError(fmt::format("{}: no such folder of claims; give it with --claims", folder));
    std::vector<std::filesystem::path> files;
    std::vector<std::string> known;  // in the order of the files
    for (const auto& path : list_folder(folder)) {
      const std::string name = name_of(path);
      if (name.empty()) continue;
      known.push_back(name);
      if (numbers.empty() || std::count(numbers.begin(), numbers.end(), name) > 0) files.push_back(path);
    }
    for (const std::string& number : numbers)
      if (std::count(known.begin(), known.end(), number) == 0)
        throw InputError(fmt::format("{}: {} has no {}; it has {}", number, folder,
                                     printed ? "descriptor of this name" : "claim of this number",
                                     joined(known, ", ")));
    if (files.empty())
      throw InputError(fmt::format("{}: has no descriptors {}.json", folder, printed ? "NAME" : "NN-name"));
    return files;
  }

  /// Claims with probes before the others, so that a trial that both need is trained with its probes.
  std::vector<std::filesystem::path> probing_first(std::vector<std::filesystem::path> files) {
    std::stable_partition(files.begin(), files.end(), [&](const auto& file) { return !loaded(file).probes.empty(); });
    return files;
  }

  /// Read once: a descriptor that is edited while its trials run is not judged.
  const Experiment& loaded(const std::filesystem::path& file) {
    const auto [found, first] = loaded_.try_emplace(file);
    if (first) found->second = descriptor.load(file.string());
    return found->second;
  }
  Experiment load(const std::filesystem::path& file, const ResultStore& store) {
    Experiment experiment = next_stage(loaded(file), store);
    if (printed ? experiment.printed.empty() : experiment.claim.empty())
      throw InputError(fmt::format("{}: has no \"{}\"", file.string(), printed ? "printed" : "claim"));
    return experiment;
  }

  /// NAME.bench.jsonl, on a GPU NAME.cuda.bench.jsonl, in the results or anywhere in the folder of archives.
  std::filesystem::path timings(const std::string& name, DeviceKind device) const {
    const std::string file = concat(name, device == DeviceKind::cpu ? "" : ".cuda", kTimingsSuffix, ".jsonl");
    if (descriptor.from.empty()) return std::filesystem::path(descriptor.out) / "bench" / file;
    std::vector<std::filesystem::path> all;
    if (std::filesystem::is_directory(descriptor.from)) all = files_below(descriptor.from);
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& path) { return path.filename() == file; });
    return found == all.end() ? std::filesystem::path(descriptor.from) / file : *found;
  }

  static std::string command_of(const std::filesystem::path& file, const TestedClaim& claim, DeviceKind device) {
    if (claim.tests.empty()) return "normlab plan " + file.string();
    if (claim.bench.empty()) return "normlab run " + file.string();
    const std::string where = device == DeviceKind::cpu ? "" : " --device cuda";
    return "normlab bench " + joined(claim.bench, where + "; normlab bench ") + where;
  }

  /// What a claim lacks, and its cost. A trial counts for the first claim that needs it.
  int print_plan(const std::vector<std::filesystem::path>& files) {
    const ResultStore store = descriptor.store();
    std::set<std::string> counted;
    double total = 0;
    std::string disturbance;
    print_text("{:<4}{:<44}{:>7}{:>7}{:>14}\n", printed ? "" : "#", printed ? "descriptor" : "claim", "trials", "left",
               "one core");
    for (const auto& file : files) {
      Experiment experiment = load(file, store);
      if (!printed && (experiment.claim.tests.empty() || !experiment.claim.bench.empty())) continue;
      const TrialsAhead ahead = trials_ahead(experiment);
      experiment.trials.insert(experiment.trials.end(), ahead.certain.begin(), ahead.certain.end());
      std::vector<std::size_t> left;
      for (std::size_t t = 0; t < experiment.trials.size(); ++t)
        if (!store.finished(experiment.trials[t].id) && counted.insert(experiment.trials[t].id).second)
          left.push_back(t);
      TrialSeconds times(experiment, left, descriptor.data_root(), gflops);
      double seconds = 0;
      for (const std::size_t t : left) seconds += times.seconds(t, times.cost(experiment.trials[t].config));
      total += seconds;
      const std::string stem = file.stem().string(), number = printed ? "" : stem.substr(0, stem.find('-'));
      print_text("{:<4}{:<44}{:>7}{:>7}{:>14}{}\n", number,
                 shorten_middle(printed ? stem : stem.substr(number.size() + 1), 43), experiment.trials.size(),
                 left.size(), left.empty() ? "" : long_duration_text(seconds),
                 ahead.most() > 0 ? fmt::format(", and up to {} more", plural(ahead.most(), "trial")) : "");
      if (disturbance.empty()) disturbance = times.disturbance();
    }
    print_text("\n{} of one core in all. A trial that several {} need is counted once.\n", long_duration_text(total),
               printed ? "descriptors" : "claims");
    if (!disturbance.empty()) print_text("Estimated while {}.\n", disturbance);
    return 0;
  }

  int run_missing(const std::filesystem::path& file) {
    const Experiment& experiment = loaded(file);
    if (!printed && experiment.claim.tests.empty()) return 0;
    if (!printed && !experiment.claim.bench.empty()) return time_missing(experiment);
    options.out = descriptor.out;
    options.data = descriptor.data_root();
    const RunSummary summary = run_experiment(experiment, options);
    tell("{}: {}\n", experiment.stem, summary.text());
    return summary.stopped ? stop_exit_code() : static_cast<int>(summary.exit_code());
  }

  /// Repeats `bench` until its file has enough lines.
  int time_missing(const Experiment& experiment) const {
    const std::filesystem::path file = timings(experiment.stem, options.device);
    std::filesystem::create_directories(file.parent_path());
    std::size_t have = 0;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) ++have;
    for (; have < experiment.claim.repeat; ++have) {
      nlohmann::json runs = nlohmann::json::array();
      for (const std::string& bench : experiment.claim.bench) runs.push_back(bench_document(bench, options.device));
      nlohmann::json line = runs.size() == 1 ? runs[0] : nlohmann::json{{"runs", runs}};
      line["repetition"] = have + 1;
      LineFile(file).append(line.dump());
      tell("{}: {} of {}\n", experiment.stem, have + 1, plural(experiment.claim.repeat, "repetition"));
    }
    return 0;
  }

  /// The document that `bench` prints.
  static nlohmann::json bench_document(const std::string& words, DeviceKind device) {
    std::string line = "bench";
    std::istringstream in(words);
    for (std::string word; in >> word;) line += " " + shell_quoted(word);
    line += device == DeviceKind::cuda ? " --format json --device cuda" : " --format json";
    std::FILE* const pipe = ::popen(fmt::format("exec /proc/{}/exe {}", ::getpid(), line).c_str(), "re");
    if (pipe == nullptr)
      throw EnvironmentError(fmt::format("bench cannot be started: {}", std::generic_category().message(errno)));
    std::string text;
    for (int c; (c = std::fgetc(pipe)) != EOF;) text += char(c);
    if (::pclose(pipe) != 0) throw EnvironmentError(fmt::format("normlab {} failed; run it alone to see why", line));
    return parse_strict_json(text, "normlab " + line);
  }

  std::string rendered(const std::vector<PrintedSource>& sources) const {
    if (format == LedgerFormat::markdown) return printed_numbers_markdown(sources);
    if (format == LedgerFormat::json) return printed_numbers_json(sources).dump(2) + "\n";
    return printed_numbers_text(sources, text_columns());
  }

  std::string rendered(const std::vector<LedgerLine>& lines) const {
    switch (format) {
      case LedgerFormat::markdown:
        return ledger_markdown(lines);
      case LedgerFormat::json:
        return ledger_json(lines).dump(2) + "\n";
      case LedgerFormat::html:
        return ledger_html(lines);
      case LedgerFormat::svg:
        return forest_plot(lines, true);
      default:
        return ledger_text(lines, text_columns(), !numbers.empty());
    }
  }
};

}  // namespace

void add_claims(Command& app) {
  auto [command, claims] = app.add_command<ClaimsCommand>(
      "claims",
      "print what the results say about the claims of publications: estimate, interval and verdict; with numbers of "
      "claims also their details");
  command.add_option("numbers", claims.numbers,
                     "numbers of claims, or with --printed names of descriptors (default: all)");
  command.add_flag("--printed", claims.printed,
                   "instead of claims, compare accuracies that public repositories print for their recipes");
  command.add_option("--claims", claims.folder_given,
                     "folder of the claims' descriptors, NN-name.json (default: experiments/claims; with --printed "
                     "experiments/printed, NAME.json)");
  claims.descriptor.add_reading(command);
  claims.descriptor.add_out_or_from(command);
  Option plan = command.add_flag("--plan", claims.plan, "print the cost of the missing trials instead");
  command.add_option("--gflops", claims.gflops, "with --plan: speed of one core, instead of measured steps")
      .positive()
      .needs(plan);
  Option run = command.add_flag("--run", claims.run, "first train the missing trials and repeat the missing timings");
  run.excludes(plan);
  command.add_bounded("--workers", claims.options.workers, "with --run: how many trials to train at once", 1, 1024)
      .needs(run);
  command
      .add_bounded("--threads", claims.options.threads, "with --run: cores per trial; does not change results", 1, 1024)
      .needs(run);
  add_device(command, claims.options.device).needs(run);
  command.add_choice("--format", claims.format, "output format");
  command.add_output(Output::stream, "-o,--output", claims.output, "file to write; -: standard output").show_default();
  command.footer(
      "A verdict is computed from results and concerns the scale and the length of training that were run. --printed has "
      "no html and no svg. Exit code "
      "2: some results cannot be read or lack a measurement; standard error names them.");
  command.examples({"normlab claims --from docs/results/claims", "normlab claims 2 9 --run --data ~/data"});
}

}  // namespace normlab
