#include "experiments/lab/bench/cases.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <sstream>
#include <vector>

#include "core/backend.h"
#include "experiments/lab/bench/print.h"

namespace normlab {
namespace {

/// Words in place of a key, or of its ending. Other keys say their unit themselves.
constexpr std::pair<std::string_view, std::string_view> kWords[] = {
    {"whole_ms", "step of the whole network, ms"},
    {"on_features_ms", "step on stored features, ms"},
    {"rest_ms", "lanes, clipping, update and the rest, ms"},
    {"bandwidth_gb_per_second", "GB/s"},
    {"images_per_second", "images/s"},
    {"gb_per_second", "GB/s"},
    {"gflops", "GFLOP/s"},
    {"share_of_step", "% of step"},
    {"share", "share %"},
    {"mb", "MB"},
    {"parameters", "params"},
};

std::string title_of(std::string title) {
  for (const auto& [ending, words] : kWords) {
    if (!title.ends_with(ending)) continue;
    title.replace(title.size() - ending.size(), title.npos, words);
    break;
  }
  std::replace(title.begin(), title.end(), '_', ' ');
  return title;
}

/// Numbers with four digits, ratios with three decimals.
std::string cell(const std::string& key, const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return value.get<std::string>();
  const double number = value.get<double>();
  if (key.find("share") != key.npos) return fmt::format("{:.1f}", 100 * number);
  if (key.find("ratio") != key.npos) return fmt::format("{:.3f}", number);
  if (number >= 1e5) return scaled(number);
  if (value.is_number_integer() || number == 0) return fmt::format("{:.0f}", number);
  return fmt::format("{:.{}f}", number, std::clamp(3 - int(std::floor(std::log10(std::abs(number)))), 0, 4));
}

/// Rows that count the work of a call are shown with its rate.
Json with_rates(Json row) {
  for (const auto& [work, rate] : {std::pair{"flops", "gflops"}, std::pair{"bytes", "gb_per_second"}}) {
    if (!row.contains("ms") || !row.contains(work)) continue;
    if (!row.contains(rate)) row[rate] = row[work].get<double>() / row["ms"].get<double>() * 1e-6;
    if (row[work] == 0) row[rate] = "";
    row.erase(work);
  }
  return row;
}

/// The words of a title stand below each other, above a column.
std::string table_of(const Json& list) {
  std::vector<Json> rows;
  for (const Json& row : list) rows.push_back(with_rates(row));
  struct Column {
    std::vector<std::string> words;  // of the title, and the cells
    std::size_t head = 0, width = 0;
    bool left = false;
  };
  std::vector<Column> columns;
  std::size_t head = 0;
  for (const auto& [key, first] : rows.front().items()) {
    Column& column = columns.emplace_back();
    std::istringstream title(title_of(key));
    for (std::string word; title >> word;) column.words.push_back(word);
    head = std::max(head, column.head = column.words.size());
    for (const Json& row : rows) column.words.push_back(cell(key, row[key]));
    for (const std::string& word : column.words) column.width = std::max(column.width, word.size());
    column.left = first.is_string() && first != "";
  }
  std::string text;
  for (std::size_t line = 0; line < head + rows.size(); ++line) {
    for (const Column& c : columns) {
      const std::size_t above = head - c.head;
      const std::string word = line < above ? "" : c.words[line - above];
      const std::string gap(c.width - word.size(), ' ');
      text += (c.left ? word + gap : gap + word) + " ";
    }
    text.erase(text.find_last_not_of(' ') + 1) += "\n";
  }
  return text;
}

void add_lines(const Json& object, std::vector<std::pair<std::string, std::string>>& lines, std::string& tables) {
  for (const auto& [key, value] : object.items())
    if (value.is_object())
      add_lines(value, lines, tables);
    else if (value.is_array())
      tables += "\n" + table_of(value);
    else
      lines.emplace_back(title_of(key), cell(key, value));
}

}  // namespace

EngineSettings BenchOptions::settings(std::int64_t images) const {
  EngineSettings result;
  find_word(precision, result.precision);
  result.max_batch = images;
  return result;
}

ModelConfig BenchOptions::in_forms(ModelConfig config) const {
  network(config).drop_path = drop_path;
  network(config).short_forms = !full_forms;
  return config;
}

Roofline BenchOptions::measured_roofline(Backend& backend, ShardPool& pool) const {
  return measure_roofline(with_products(backend), pool, dtype(), Streams::kFloats * (on_gpu() ? 4 : 1),
                          on_gpu() ? 8192 : 1024, std::clamp(seconds, 0.2, 0.5));
}

double rounded(double value, int digits) {
  const double scale = std::pow(10.0, digits);
  return std::round(value * scale) / scale;
}

Json roofline_json(const Roofline& roofline) {
  return {{"copy_gb_per_second", rounded(roofline.bytes_per_second * 1e-9, 2)},
          {"product_gflops", rounded(roofline.flops_per_second * 1e-9, 1)}};
}

std::string device_words(const Backend& backend) {
  const std::map<std::string, std::string> all = backend.provenance();
  const auto gpu = all.find("gpu");
  return gpu == all.end() ? backend.name() : gpu->second;
}

const std::vector<BenchCase>& bench_cases() {
  using enum BenchOption;
  static const std::vector<BenchCase> cases{
      {"step",
       "measure optimisation steps: forward, backward, clipping, AdamW",
       "Times are medians. Peak MB are the process's, network MB those reserved for weights, gradients, moments and "
       "activations. With --roofline, or on a GPU: the longer of the bounds by products and by bytes is a share of the "
       "step.",
       {"normlab bench step --shape tiny --threads 1", "normlab bench step --placement dpn --roofline"},
       {shape, precision, placement, forms, threads, device, stack, algorithms, batch, depth, images_per_shard, frozen,
        roofline, seconds},
       {},
       bench_step,
       true},
      {"profile",
       "show how the time of a step divides among its operations, on one thread",
       "GB/s counts each operand and result once. The bound is the time of the products or of the bytes, whichever is "
       "longer, and the floor is the sum of the operations' bounds. On a GPU the step is timed first, as it is trained; "
       "then events stand between the operations, which add 1 to 2 us to each.",
       {"normlab bench profile --shape micro --placement prepost_prepost",
        "normlab bench profile --shape small --precision bf16 --roofline"},
       {shape, precision, placement, forms, device, algorithms, batch, roofline, seconds},
       {.shape = "tiny"},
       bench_profile},
      {"gemm",
       "measure a network's matrix products: by OpenBLAS, oneDNN and normlab's own kernels, or on a GPU",
       "The CPU is measured at the sizes of the network's shards, per busy thread; the limit is the rate of the first "
       "kernel on all threads with no other work. Of the kernels for fp32, a step uses the one that the last column "
       "names; bf16 products are oneDNN's. A GPU is measured at the sizes of a whole batch, all calls of a step, "
       "and compared with the time of the products or of the bytes, whichever is longer. --tune times up to 16 "
       "algorithms that cuBLASLt proposes for each product of a step, in turns. Another than its first choice is taken "
       "if it is at least 3% faster; gain is in % of the time.",
       {"normlab bench gemm --shape micro --threads 1",
        "normlab bench gemm experiments/micro_trials.json --device cuda --tune micro.txt"},
       {shape, precision, batch, threads, device, tune, seconds},
       {.shape = "tiny", .seconds = 0.1},
       bench_gemm},
      {"ops",
       "measure operations alone, forward and backward, and compare them with the limit that products and memory set",
       "The bytes count each operand and result once; the bound is the time of the products or of the bytes, whichever "
       "is longer. The backward pass has twice the forward pass's products, that of attention 2.5 times.",
       {"normlab bench ops --shape tiny --threads 1",
        "normlab bench ops --op attention --tokens 1024 --precision bf16"},
       {shape, precision, batch, op_sizes, ops, threads, device, seconds},
       {.seconds = 0.1},
       bench_ops},
      {"norms",
       "measure every kind of norm and compare it with the time that its memory traffic takes",
       "train: forward, dx, dgamma, dbeta. eval: forward, with frozen statistics in batch_norm. GB/s: the faster of a "
       "copy and a triad of 288 MB, measured in turns with the norms. bound: the time to move the tensors at that rate: "
       "5 in train (y from x; dx from dy and x), 8 in train for batch_norm (x, dy and x again for the sums), 2 in eval. "
       "A ratio below 1.00 means that the shape stays in a cache.",
       {"normlab bench norms --shape 65x768 4096x4096", "normlab bench norms --table dyt"},
       {norm_rows, precision, threads, device, seconds},
       {.seconds = 0.5},
       bench_norms},
      {"models",
       "measure training and inference of whole networks with layer norm, batch norm (BN+FFNBN) and merged batch norm",
       "Ratios are to LN's speed, measured here and published (V100, Leveraging Batch Normalization for Vision "
       "Transformers, Table 6). *: batch norm merged into the adjacent linear layers.",
       {"normlab bench models --models deit_s,swin_t --image 64", "normlab bench models --models deit_s --full-forms"},
       {models, model_batch, image, forms, precision, threads, device, seconds},
       {.seconds = 2.0},
       bench_models},
      {"data",
       "measure each step from an image file to a network's input, in images per second on one core",
       "Images per second of CPU time of one core, from files in memory.",
       {"normlab bench data --size 160", "normlab bench data ~/pets --format json"},
       {folder, size, seconds, cpu_only},
       {.seconds = 2.0},
       bench_data},
      {"update",
       "measure the update alone: the gradient sum over lanes, its norm, clipping and each optimiser's step",
       "State bytes are those of the moments of one parameter.",
       {"normlab bench update --shape tiny --lanes 8", "normlab bench update --shape small --device cuda"},
       {shape, precision, placement, threads, device, lanes, seconds},
       {.shape = "small", .seconds = 1.0},
       bench_update},
      {"sweep",
       "train a sweep as `run` does, in a temporary folder, and show where its workers spend their time",
       "",
       {"normlab bench sweep experiments/placements_gratings.json --set train.epochs=1",
        "normlab bench sweep experiments/micro_trials.json --workers 2 --format json"},
       {descriptor, workers},
       {.threads = 0},
       bench_sweep},
      {"intervals",
       "simulate how often the intervals of a table's gains hold together, and how wide they are",
       "Some rows, or the baseline, are noisier than the others. The percentage says in how many sweeps all intervals "
       "hold. The number after it is the mean width of the other rows' intervals over that of Dunnett's procedure "
       "without noisy rows, each relative to the true error of the gains. With --pairs both are of all pairs of the rows "
       "and the baseline, and the other procedure is Tukey's.",
       {"normlab bench intervals --rows 3 --seeds 3 5", "normlab bench intervals --pairs"},
       {rows, seeds, sweeps, pairs, threads},
       {},
       bench_intervals}};
  return cases;
}

std::string scaled(double value) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  std::size_t i = 0;
  for (; value >= 999.5 && i + 1 < std::size(kPrefixes); ++i) value *= 1e-3;
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, kPrefixes[i]);
}

std::string bench_text(const Json& document) {
  std::vector<std::pair<std::string, std::string>> lines;
  std::string text, tables;
  add_lines(document, lines, tables);
  std::size_t width = 0;
  for (const auto& [title, value] : lines) width = std::max(width, title.size());
  for (const auto& [title, value] : lines) text += fmt::format("{:<{}}  {}\n", title, width, value);
  return text + tables;
}

}  // namespace normlab
