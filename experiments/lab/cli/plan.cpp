#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "core/error.h"
#include "core/visible_text.h"
#include "core/words.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/cli/device_option.h"
#include "experiments/lab/descriptor/trials_ahead.h"
#include "experiments/lab/descriptor/tune.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/sweep/runner.h"
#include "experiments/lab/sweep/slurm.h"
#include "experiments/lab/sweep/start_weights.h"
#include "experiments/lab/sweep/trial_seconds.h"
#include "experiments/lab/tables/plan_rows.h"
#include "experiments/lab/tables/stage_notes.h"
#include "experiments/lab/train/probes.h"
#include "experiments/lab/trials/store.h"

namespace normlab {
namespace {

std::string size_text(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.0f} MB", bytes * 1e-6) : fmt::format("{:.1f} GB", bytes * 1e-9);
}

std::string flops_text(double flops) {
  for (const auto& [unit, name] : {std::pair{1e18, "E"}, {1e15, "P"}, {1e12, "T"}})
    if (flops >= unit) return fmt::format("{:.1f} {}FLOP", flops / unit, name);
  return fmt::format("{:.1f} GFLOP", flops * 1e-9);
}

/// slurm: a script for sbatch. commands: a line per task, for GNU parallel, HTCondor, PBS or Kubernetes.
enum class PlanFormat : std::uint8_t { text, slurm, commands };
constexpr auto stated_words(PlanFormat) { return words<PlanFormat>("text", "slurm", "commands"); }

std::string absolute(const std::string& path) { return std::filesystem::absolute(path).lexically_normal().string(); }

void print_paragraph(const std::string& text) {
  for (const std::string& line : wrapped(visible(text), std::min(text_columns(), kWidestProse)))
    print_text("{}\n", line);
}

/// The making of training images where it takes much of a step. `threads` and `data threads` are those of `run`; with
/// D data threads, T threads wait for images if T of them use images faster than D make them.
std::string making_text(const TrialConfig& config, const StepTime& time) {
  constexpr double kMuch = 0.1;
  if (time.making <= kMuch * time.training) return "";
  const AugmentConfig& augment = config.train.augment;
  std::vector<std::string> steps;
  for (const auto& [on, step] : {std::pair{time.decodes, "decode"},
                                 {augment.crop != CropName::none || augment.crop_padding > 0, "crop"},
                                 {augment.flip, "flip"},
                                 {augment.randaugment.dialect != RandAugmentDialect::none, "RandAugment"},
                                 {augment.autoaugment.dialect != AutoAugmentDialect::none, "AutoAugment"},
                                 {augment.trivialaugment.dialect != TrivialAugmentDialect::none, "TrivialAugment"},
                                 {augment.color_jitter != ColorJitterConfig{}, "colour jitter"},
                                 {true, "normalise"},
                                 {augment.erasing.dialect != ErasingDialect::none, "erase"},
                                 {mixes(augment.mix), "mix"}})
    if (on) steps.push_back(step);
  const double network = time.training - time.making;
  const std::string bound =
      time.making < network ? fmt::format("each of --data-threads on a free core feeds {} of --threads",
                                          std::floor(network / time.making))
                            : fmt::format("bound by input: each of --threads needs {} of --data-threads on free cores",
                                          std::ceil(time.making / network));
  return fmt::format("images: {:.3g} ms of a core for each ({}), {:.0f}% of a step; {}", 1e3 * time.making,
                     joined(steps, ", "), 100 * time.making / time.training, bound);
}

struct Plan {
  DescriptorOptions descriptor;
  double gflops = 0;  // of one core; 0: measured
  PlanFormat format = PlanFormat::text;
  std::vector<Option> of_tasks{}, of_slurm{};  // options that apply only there
  double hours = 0;                            // 0: estimated
  DeviceKind device = DeviceKind::cpu;
  SlurmJob asked{};

  void add_tasks(Command& plan) {
    plan.add_words(
            "--format", format,
            "text; slurm: print a Slurm array script for the trials without a result; commands: a command line per task "
            "for other schedulers")
        .show_default("text");
    of_tasks = {plan.add_bounded("--tasks", asked.tasks, "number of tasks; each trains trials until none is left", 1,
                                 1'000'000)};
    of_tasks.push_back(
        plan.add_bounded("--trials-per-task", asked.trials_per_task, "trials per task (default: 1)", 1, 1'000'000)
            .excludes(of_tasks.front()));
    of_tasks.push_back(plan.add_number("--cpus", asked.cpus, "cores per task", 1, 1024));
    of_tasks.push_back(add_device(plan, device));
    of_slurm = {plan.add_option("--time-factor", asked.time_factor, "slurm: time limit as a multiple of the estimate")
                    .positive(1000)
                    .show_default(),
                plan.add_option("--hours", hours, "slurm: hours per trial, instead of an estimate").positive(100'000)};
  }

  /// InputError for an option that the format does not use.
  void require_used() const {
    const auto refuse = [](const std::vector<Option>& options, const char* formats) {
      for (const Option& option : options)
        if (option.given()) throw InputError(fmt::format("{}: needs --format {}", option.name(), formats));
    };
    if (format == PlanFormat::text) refuse(of_tasks, "slurm or --format commands");
    if (format != PlanFormat::slurm) refuse(of_slurm, "slurm");
  }

  /// For the trials without a result. InputError if a trial's time is unknown.
  int print_tasks(const Experiment& experiment) const {
    const ResultStore store(descriptor.out);
    SlurmJob job = asked;
    job.name = experiment.stem;
    job.trial_seconds = 3600 * hours;
    job.gpu = device == DeviceKind::cuda;
    const bool estimates = format == PlanFormat::slurm && hours == 0;
    if (job.gpu && estimates)
      throw InputError("plan --format slurm --device cuda: estimates are for CPUs; give a trial's time with --hours");
    job.to_come = trials_ahead(experiment).certain.size();
    std::vector<std::size_t> missing;
    for (std::size_t t = 0; t < experiment.trials.size(); ++t)  // a failed trial has a result; `run` skips it too
      if (!store.trial(experiment.trials[t].id).load_result()) {
        if (waits_for_start(experiment.trials[t].config.start, store))
          ++job.waiting;
        else
          missing.push_back(t);
      }
    job.missing = missing.size();
    TrialSeconds costs(experiment, estimates ? missing : std::vector<std::size_t>(), descriptor.data_root(), gflops);
    for (const std::size_t t : estimates ? missing : std::vector<std::size_t>()) {
      const TrialConfig& config = experiment.trials[t].config;
      const TrialCost cost = costs.cost(config);
      if (!cost.steps)
        throw InputError(fmt::format(
            "plan --format slurm: the size of \"{}\" is unknown, so a trial's time cannot be estimated; give it with "
            "--hours",
            config.dataset.name));
      const double used = std::min<double>(job.cpus, double(cost.shards.lanes));
      job.trial_seconds = std::max(job.trial_seconds, costs.seconds(t, cost) / used);
    }
    if (job.missing == 0) {
      tell("nothing to submit: {} with results, none without\n", plural(experiment.trials.size(), "trial"));
      return 0;
    }
    job.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "run", absolute(descriptor.file), "--out",
                   absolute(descriptor.out)};
    if (job.gpu) job.command.insert(job.command.end(), {"--device", "cuda"});
    if (!descriptor.data.empty()) job.command.insert(job.command.end(), {"--data", absolute(descriptor.data)});
    for (const std::string& set : descriptor.sets) job.command.insert(job.command.end(), {"--set", set});
    print_bytes(format == PlanFormat::slurm ? slurm_script(job) : task_commands(job));
    if (const std::string words = words_of_later(job); !words.empty()) tell("{}\n", words);
    if (!costs.disturbance().empty()) tell("estimated while {}\n", costs.disturbance());
    constexpr std::size_t kManyTasks = 1000;
    if (const std::size_t tasks = slurm_tasks(job); tasks > kManyTasks)
      tell("{} tasks: many schedulers limit an array to about {}; join trials with --trials-per-task\n", tasks,
           kManyTasks);
    return 0;
  }

  static TrialCosts costs_of(const TrialConfig& config, const TrialCost& cost) {
    TrialCosts costs;
    costs[0] = fmt::format("{} parameters, {} macs per image, with norms {}", cost.model.parameters, cost.model.macs,
                           cost.model.macs_with_norms());
    if (cost.steps) {
      costs[1] = fmt::format("{} of {}, {} per epoch of {}; warm-up {}", plural(cost.steps->total, "step"),
                             plural(config.train.batch_size, "image"), cost.steps->per_epoch,
                             plural(*cost.train_images, "image"), plural(cost.steps->warmup, "step"));
      costs[2] = flops_text(cost.training_flops + cost.evaluation_flops) + " in matrix products";
    } else {
      costs[1] = fmt::format("steps and time: unknown until the data of \"{}\" is there", config.dataset.name);
    }
    costs[3] = fmt::format("memory about {}: {} for weights, gradients and moments, {} for images, {} for {}",
                           size_text(cost.bytes(1)), size_text(cost.state_bytes(1)), size_text(cost.batch_bytes),
                           size_text(cost.bytes(1) - cost.state_bytes(1) - cost.batch_bytes),
                           cost.shards.lockstep ? "all shards" : "each thread");
    costs[5] = cost.features.words();
    costs[4] = fmt::format("{} of {} in {}{}; more than {} threads do not help", plural(cost.shards.shards, "shard"),
                           plural(cost.shards.images, "image"), plural(cost.shards.lanes, "lane"),
                           cost.shards.lockstep ? ", in lockstep" : "", cost.shards.lanes);
    return costs;
  }

  static void print_warnings(const Experiment& experiment) {
    std::size_t single = 0, lone = 0;
    bool any_baseline = false;
    for (std::size_t r = 0; r < experiment.rows.size(); ++r) {
      const Cell& row = experiment.rows[r];
      // Until its values are chosen, a tuned row has none of the trials that the table will show.
      single += (experiment.tuned ? experiment.tuned->seeds(r).size() : row.trials.size()) == 1;
      lone += !row.baseline.has_value();
      any_baseline = any_baseline || row.baseline.has_value();
    }
    if (single == experiment.rows.size() && experiment.rows.size() > 1)
      print_paragraph("Warning: with one seed per row the noise is unknown, so no gain can be judged; set \"seeds\"");
    else if (single > 0 && experiment.rows.size() > 1)
      print_paragraph(fmt::format("Warning: {} of {} rows have one seed, so their noise is unknown", single,
                                  experiment.rows.size()));
    if (any_baseline && lone > 0)
      print_paragraph(
          fmt::format("Warning: {} of {} rows have no baseline to compare with", lone, experiment.rows.size()));
  }

  int operator()() const {
    const Experiment experiment = next_stage(descriptor.load(), descriptor.store());
    require_used();
    if (format != PlanFormat::text) return print_tasks(experiment);
    const ResultStore store(descriptor.out);
    const PlanChange change = plan_change(experiment, store);
    const std::set<std::size_t> added(change.added.begin(), change.added.end());
    std::vector<TrialStatus> status;
    std::vector<std::size_t> left;
    for (const Trial& trial : experiment.trials)
      if (!status.emplace_back(store.trial(trial.id).status()).finished()) left.push_back(status.size() - 1);
    const std::size_t known_trials = status.size(), done = known_trials - left.size();
    const TrialsAhead ahead = trials_ahead(experiment);
    // Trials to come after the known ones.
    Experiment all = experiment;
    all.trials.insert(all.trials.end(), ahead.certain.begin(), ahead.certain.end());
    const std::size_t certain = all.trials.size();
    for (const auto& [trial, count] : ahead.possible) all.trials.push_back(trial);
    for (std::size_t t = known_trials; t < all.trials.size(); ++t) left.push_back(t);
    TrialSeconds costs(all, left, descriptor.data_root(), gflops);  // refuses data before anything is printed
    print_paragraph(experiment.about);
    print_text("{}, {}", plural(experiment.rows.size(), "row"), trials_words(experiment, ahead));
    if (experiment.duplicates > 0) print_text(", {} duplicates left out", experiment.duplicates);
    print_text("; {} done already\n", done);
    if (const std::string words = describe(change, experiment); !words.empty()) print_paragraph("Changed: " + words);
    if (const std::string words = trials_to_come(experiment); !words.empty()) print_paragraph("To come: " + words);
    for (const std::string& what : experiment.repeated_rows) print_paragraph("Note: " + what);
    print_warnings(experiment);
    print_text("{}\n", paper_text(experiment.paper));
    double seconds_left = 0, most_seconds = 0, probing = 0, kept = 0, most_kept = 0, running = 0;
    bool known = true;
    std::vector<PlanPart> parts;
    TrialCost cost;
    for (std::size_t t = 0; t < certain; ++t) {
      const Trial& trial = all.trials[t];
      if (parts.empty() || parts.back().row != trial.row || parts.back().purpose != trial.purpose ||
          t == known_trials) {
        cost = costs.cost(trial.config);
        const bool timed = cost.steps && costs.timed(t);
        TrialCosts lines = costs_of(trial.config, cost);
        if (costs.timed(t) && !cost.features.once()) lines[6] = making_text(trial.config, costs.time(t));
        parts.push_back(
            {trial.row, trial.purpose, std::move(lines), timed ? long_duration_text(costs.seconds(t, cost)) : "", {}});
      }
      if (t < known_trials)
        parts.back().trials.push_back(t);
      else
        ++parts.back().ahead;
      known = known && cost.steps;
      kept += cost.disk_kept(experiment.checkpoint.keep);
      running = std::max(running, cost.disk_running());
      if (!costs.timed(t)) continue;
      seconds_left += costs.seconds(t, cost);
      if (cost.steps) probing += costs.seconds(t, cost) * added_time(experiment.probes, cost.steps->total);
    }
    for (std::size_t p = 0; p < ahead.possible.size(); ++p) {
      const auto& [trial, count] = ahead.possible[p];
      const TrialCost each = costs.cost(trial.config);
      most_seconds += double(count) * costs.seconds(certain + p, each);
      most_kept += double(count) * each.disk_kept(experiment.checkpoint.keep);
    }
    print_costs(parts);
    print_trials(experiment, parts, status, added);
    if (known && !left.empty()) {
      const std::size_t cores = std::min<std::size_t>(static_cast<std::size_t>(available_cores()), left.size());
      print_text("\n");
      const std::string most = most_seconds > 0
                                   ? fmt::format(", up to {} with all seeds,",
                                                 long_duration_text((seconds_left + most_seconds) / double(cores)))
                                   : "";
      const std::string disturbance =
          costs.disturbance().empty()
              ? ""
              : fmt::format(" while {}; such times are not kept for the next plan", costs.disturbance());
      print_paragraph(
          fmt::format("{} take about {}{} on {} of this machine, estimated {}{}.{}",
                      done == 0 ? "All trials" : "The remaining trials",
                      long_duration_text(seconds_left / double(cores)), most, plural(cores, "core"),
                      gflops > 0 ? fmt::format("at {:g} GFLOP/s per core (--gflops)", gflops) : costs.origin(),
                      disturbance, costs.decoding_counted() ? "" : " Decoding of photographs is not included."));
      if (const std::string words = slow_bf16_words(costs.bf16_times_fp32()); !words.empty()) print_paragraph(words);
      if (!experiment.probes.empty())
        print_paragraph(fmt::format("Probes add about {:.1f}% to the time of the steps{}.",
                                    100 * probing / seconds_left,
                                    experiment.probes.without_block ? ", and an evaluation per block at the end" : ""));
    }
    print_paragraph(
        fmt::format("Disk: about {}{} when all are done (checkpoint.keep \"{}\"), and {} more for each running trial.",
                    size_text(kept), most_kept > 0 ? fmt::format(", up to {},", size_text(kept + most_kept)) : "",
                    word_of(experiment.checkpoint.keep), size_text(running)));
    print_text("\n{} of {} done\n{}", done, certain, missing_measurements_note(experiment, store));
    return 0;
  }
};

}  // namespace

void add_plan(Command& app) {
  auto [command, plan] =
      app.add_command<Plan>("plan", "show the trials of a descriptor, what each costs and which are done");
  plan.descriptor.add_file(command);
  plan.descriptor.add_out(command);
  command
      .add_option("--gflops", plan.gflops,
                  "speed of one core in GFLOP/s, to estimate times from instead of measuring steps")
      .positive();
  plan.add_tasks(command);
  command.examples({"normlab plan experiments/placements_gratings.json",
                    "normlab plan experiments/placements_cifar10.json --format slurm --cpus 8 > job.sh"});
}

}  // namespace normlab
