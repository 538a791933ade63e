#include <fmt/core.h>

#include <algorithm>

#include "core/error.h"
#include "core/lane_tree.h"
#include "experiments/lab/base/machine_load.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/bench/cases.h"
#include "experiments/lab/bench/print.h"
#include "experiments/lab/bench/shapes.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/cli/device_option.h"
#include "experiments/lab/cli/output_file.h"

namespace normlab {
namespace {

/// An object in one line, with a space after each comma.
std::string in_one_line(const Json& document) {
  std::string line;
  for (const char c : document.dump(0, ' ', false, Json::error_handler_t::replace))
    if (c != '\n')
      line += c;
    else if (line.back() == ',')
      line += ' ';
  return line;
}

struct Bench {
  const BenchCase* measurement = nullptr;
  BenchOptions options{};
  DescriptorOptions descriptor{};
  std::string format = "text";
  std::vector<Option> of_network{};  // which a descriptor describes, too

  int operator()() {
    std::optional<Experiment> experiment;
    if (!descriptor.file.empty()) {
      for (const Option& option : of_network)
        if (option.given())
          throw InputError(fmt::format("{}: the descriptor describes the networks; leave it out", option.name()));
      experiment = descriptor.load();
      options.experiment = &*experiment;
      options.data = descriptor.data_root();
    }
    const Inputs inputs = descriptor.inputs(options.experiment);
    if (!options.tune.empty()) require_output(options.tune, inputs);
    const LoadMeter meter;
    Measured found = measurement->measure(options);
    if (found.exit_code != 0) return found.exit_code;
    if (!options.tune.empty()) write_output(options.tune, found.algorithms, inputs);
    std::string note;
    if (found.threads > 0) {
      const std::optional<MachineLoad> load = meter.load();
      note = publishing_note(load, {found.threads, available_cores(), openblas_variables_kept()});
      if (format == "json")
        found.document.update(Json{{"load", load ? Json(rounded(load->others, 2)) : Json(nullptr)},
                                   {"publishable", note.empty()},
                                   {"note", note}});
    }
    if (format == "json") {
      print_bytes((measurement->one_line ? in_one_line(found.document)
                                         : found.document.dump(1, ' ', false, Json::error_handler_t::replace)) +
                  "\n");
      return 0;
    }
    found.document.update(found.text);
    print_text("{}", bench_text(found.document));
    if (*measurement->note) print_text("\n{}\n", joined(wrapped(measurement->note, 80), "\n"));
    if (!note.empty()) tell("not worth publishing: {}\n", note);
    return 0;
  }

  void add_options(Command& command);
};

// NOLINTNEXTLINE(readability-function-size): an if per option, each with a line or two
void Bench::add_options(Command& command) {
  BenchOptions& o = options;
  const auto has = [&](BenchOption option) {
    return std::count(measurement->options.begin(), measurement->options.end(), option) > 0;
  };
  if (has(BenchOption::shape))
    of_network.push_back(
        command.add_choice("--shape", o.shape,
                           "size of the network; micro: 32 px, patch 4, width 64, depth 4; tiny: micro with width 192 "
                           "and depth 12; small: 224 px, patch 16, width 384, depth 12; s16: small with 256 images a "
                           "batch; deit_s: DeiT-S, 224 px; swin_t: Swin-T, 224 px; dyt: 64 px, patch 8, width 768, "
                           "depth 6",
                           bench_shape_names()));
  if (has(BenchOption::precision))
    of_network.push_back(
        command.add_choice("--precision", o.precision, "precision of the activations", words_of<Precision>()));
  if (has(BenchOption::placement))
    command.add_option("--placement", o.placement, "named placement of the norms, see `normlab explain --placements`")
        .show_default();
  if (has(BenchOption::forms)) {
    command
        .add_option("--drop-path", o.drop_path,
                    "drop-path rate of the last block; the rate rises linearly from 0 at the first")
        .range(0.0, 0.99);
    command.add_flag("--full-forms", o.full_forms,
                     "compute, as other programs do, what a network may skip: the branches of images that drop path "
                     "drops, and the last block's tokens other than the class token");
  }
  if (has(BenchOption::threads))
    command.add_number("--threads", o.threads, "how many cores to use at once", 1, 1024).show_default("all cores");
  if (has(BenchOption::device)) add_device(command, o.device);
  if (has(BenchOption::stack))
    command.add_number("--stack", o.stack, "on a GPU: networks that are trained together, as `run --stack` does", 1,
                       kMostStacked);
  if (has(BenchOption::algorithms)) add_gpu_algorithms(command, o.algorithms);
  if (has(BenchOption::tune)) {
    descriptor.add_file(command, false);
    command.add_output(
        Output::file, "--tune", o.tune,
        "write the fastest algorithms to this file, for --gpu-algorithms: of a step of this shape, or of "
        "each row of a descriptor");
  }
  if (has(BenchOption::cpu_only))
    add_cpu_device(command,
                   "bench data always measures the CPU, which decodes the images for every device; leave --device out");
  if (has(BenchOption::batch))
    of_network.push_back(
        command.add_option("--batch", o.batch, "images per step (default: the shape's)").range(1, 1 << 20));
  if (has(BenchOption::model_batch))
    command.add_option("--batch", o.batch, "images per step (default: 128 on a GPU, 4 on the CPU)").range(2, 1 << 20);
  if (has(BenchOption::depth))
    command.add_option("--depth", o.depth, "number of blocks (default: the shape's)").range(1, 1 << 10);
  if (has(BenchOption::images_per_shard))
    command.add_number("--images-per-shard", o.images_per_shard,
                       "images per shard, the part of a batch that one thread computes; 0: chosen automatically", 0,
                       1 << 20);
  if (has(BenchOption::frozen))
    command.add_flag(
        "--frozen", o.frozen,
        "freeze all but the head; also measure inference, training on stored features, and the whole network");
  if (has(BenchOption::roofline))
    command.add_flag("--roofline", o.with_roofline,
                     "also measure how fast the CPU copies and multiplies, to compare with; a GPU is always measured");
  if (has(BenchOption::op_sizes)) {
    command.add_option("--tokens", o.tokens, "tokens per image (default: the shape's)").range(1, 1 << 16);
    command.add_option("--heads", o.heads, "attention heads (default: the shape's)").range(1, 1 << 10);
    command.add_option("--head-dim", o.head_dim, "width of a head (default: the shape's)").range(1, 1 << 10);
  }
  if (has(BenchOption::ops))
    command.add_option("--op", o.ops, "operations to measure, by their names in the table (default: all)");
  if (has(BenchOption::norm_rows)) {
    const Option shape = command
                             .add_option("--shape", o.shapes,
                                         "input shapes, images first and channels last; the first of only two axes "
                                         "becomes images of 65 tokens, else 64, else one")
                             .show_default();
    const Option norm =
        command.add_option("--norm", o.norms, "kinds of norm to measure (default: all of one operation)");
    norm.one_of(bench_norm_words());
    const Option formula = command.add_option(
        "--formula", o.formulas,
        "norms to measure that are formulas such as \"gamma * x / rms(x)\", or JSON with their parameters");
    command
        .add_option("--table", o.table,
                    "measure the shapes and norms of a published table; batch_norm: Table 5 of the batch norm "
                    "paper; dyt: the time analysis of the DyT blog")
        .one_of({"batch_norm", "dyt"})
        .excludes(shape)
        .excludes(norm)
        .excludes(formula);
  }
  if (has(BenchOption::models))
    command.add_option("--models", o.models, "networks to measure, separated by commas")
        .comma_separated()
        .one_of(bench_model_words())
        .show_default();
  if (has(BenchOption::image)) command.add_number("--image", o.image, "side of an image in pixels", 32, 1024);
  if (has(BenchOption::folder))
    command.add_option("folder", o.folder, "folder of photographs (default: generated images)");
  if (has(BenchOption::size)) command.add_number("--size", o.size, "side of the network's input in pixels", 8, 1024);
  if (has(BenchOption::lanes)) command.add_number("--lanes", o.lanes, "gradient buffers to sum", 1, int(kMostLanes));
  if (has(BenchOption::descriptor)) descriptor.add_file(command);
  if (has(BenchOption::workers)) {
    command.add_option("--workers", o.workers, "how many trials to train at once (default: one per core)")
        .range(1, 1024);
    command.add_option("--threads", o.threads, "cores per trial (default: the cores divided among the workers)")
        .range(1, 1024);
  }
  if (has(BenchOption::rows)) command.add_number("--rows", o.rows, "rows that are compared with the baseline", 1, 1000);
  if (has(BenchOption::seeds)) command.add_option("--seeds", o.seeds, "numbers of seeds").show_default();
  if (has(BenchOption::sweeps))
    command.add_number("--sweeps", o.sweeps, "sweeps to simulate for each number", 100, 1'000'000);
  if (has(BenchOption::pairs))
    command.add_flag("--pairs", o.pairs, "compare every two rows, as table --pairs all does");
  if (has(BenchOption::seconds))
    command.add_option("--seconds", o.seconds, "seconds for each measurement").positive().show_default();
}

}  // namespace

void add_bench(Command& app) {
  Command group = app.add_group("bench", "measure speed on this machine");
  for (const BenchCase& one : bench_cases()) {
    auto [command, bench] = group.add_command<Bench>(one.name, one.what);
    bench.measurement = &one;
    bench.options = one.defaults;
    bench.add_options(command);
    command.add_choice("--format", bench.format, "output format", {"text", "json"});
    command.footer(one.note);
    command.examples(one.examples);
  }
  group.examples({"normlab bench step --shape tiny", "normlab help bench step"});
}

}  // namespace normlab
