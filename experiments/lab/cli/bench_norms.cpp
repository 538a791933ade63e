#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "experiments/lab/base/terminal.h"
#include "experiments/lab/bench/norm_timing.h"
#include "experiments/lab/cli/bench.h"

namespace normlab {
namespace {

/// At most five columns, even after a long interruption.
std::string ratio_text(double ratio) {
  return ratio < 99.995 ? fmt::format("{:.2f}", ratio) : fmt::format("{:.0f}", ratio);
}

/// A published table of single norms: its contents and the printed milliseconds.
struct LayerTable {
  struct Entry {
    NormKind kind;
    double train, eval;  // 0: not printed
  };
  struct Line {
    const char* shape;
    int blocks;  // of that shape in the network; 0: the table has no totals
    std::vector<Entry> entries;
  };
  const char *word, *title;
  std::vector<Line> lines;
};

const std::vector<LayerTable>& layer_tables() {
  constexpr NormKind kLN = NormKind::layer_norm, kBN = NormKind::batch_norm;
  static const std::vector<LayerTable> tables{
      {"batch_norm",
       "Leveraging Batch Normalization for Vision Transformers, Table 5 (V100)",
       {{"128x56x56x96", 2, {{kLN, 14.07, 6.14}, {kBN, 4.20, 1.83}}},
        {"128x28x28x192", 2, {{kLN, 3.92, 1.99}, {kBN, 2.20, 0.81}}},
        {"128x14x14x384", 6, {{kLN, 1.19, 0.53}, {kBN, 1.14, 0.41}}},
        {"128x7x7x768", 2, {{kLN, 0.39, 0.18}, {kBN, 0.54, 0.26}}}}},
      {"dyt",
       "Tanh as LayerNorm in Small Vision Transformers, Time analysis (inference)",
       {{"65x768", 0, {{NormKind::rms_norm, 0, 0.112}, {kLN, 0, 0.053}, {NormKind::dyt, 0, 0.075}}},
        {"4096x4096", 0, {{NormKind::rms_norm, 0, 1.936}, {kLN, 0, 0.805}, {NormKind::dyt, 0, 0.535}}}}}};
  return tables;
}

struct BenchNorms : BenchOptions {
  BenchNorms() { seconds = 0.5; }
  std::vector<std::string> shapes{"65x768",        "4096x4096",     "8320x192",   "128x56x56x96",
                                  "128x28x28x192", "128x14x14x384", "128x7x7x768"};
  std::vector<std::string> kinds;  // empty: all
  std::string table;               // a LayerTable: measures only its shapes and kinds, and prints in its layout

  static std::vector<std::string> all_kinds() {
    std::vector<std::string> words;
    for (std::size_t k = 1; k < std::size(kNormKinds); ++k)
      if (NormKind(k) != NormKind::whiten) words.emplace_back(to_string(NormKind(k)));  // whiten is a product
    return words;
  }
  int operator()() const {
    const ComputeDevice computer(device);
    Backend& backend = computer.backend();
    std::vector<NormShape> parsed;
    const LayerTable* published = nullptr;
    for (const LayerTable& t : layer_tables())
      if (t.word == table) published = &t;
    if (published)
      for (const LayerTable::Line& line : published->lines) parsed.push_back(parse_norm_shape(line.shape));
    else
      for (const std::string& text : shapes) parsed.push_back(parse_norm_shape(text));
    const LoadMeter meter;
    ShardPool pool(threads);
    const Streams streams(backend);
    if (!json()) print_head(backend, published);
    Json rows = Json::array();
    std::map<std::pair<std::string, NormKind>, NormTime> times;
    for (const NormShape& s : parsed) {
      const NormTimer timer(backend, pool, streams, s, dtype());
      for (std::size_t k = 1; k < std::size(kNormKinds); ++k) {  // every kind except none
        const auto kind = NormKind(k);
        if (published ? !has(*published, kind) : !wanted(kind)) continue;
        const NormTime row = timer.measure(kind, seconds);
        times.emplace(std::pair(s.name, kind), row);
        if (json())
          rows.push_back({{"shape", s.name},
                          {"norm", row.norm},
                          {"bandwidth_gb_per_second", rounded(row.rate * 1e-9, 2)},
                          {"train_ms", rounded(row.train, 5)},
                          {"train_bound_ms", rounded(row.train_bound, 5)},
                          {"train_ratio", rounded(row.train_ratio, 3)},
                          {"eval_ms", rounded(row.eval, 5)},
                          {"eval_bound_ms", rounded(row.eval_bound, 5)},
                          {"eval_ratio", rounded(row.eval_ratio, 3)}});
        else
          print_text("{:<13} {:<16} {:>4.0f} {:>8.3f} {:>7.3f} {:>5} {:>7.3f} {:>7.3f} {:>5}\n", s.name, row.norm,
                     row.rate * 1e-9, row.train, row.train_bound, ratio_text(row.train_ratio), row.eval, row.eval_bound,
                     ratio_text(row.eval_ratio));
        std::fflush(stdout);
      }
    }
    if (!json() && published) print_as_published(*published, times);
    Json document{{"device", device_words(backend)}, {"threads", threads}, {"precision", precision}};
    if (published) document["table"] = table;
    document["rows"] = std::move(rows);
    return end(std::move(document), meter, threads);
  }

 private:
  bool wanted(NormKind kind) const {
    const std::vector<std::string> words = kinds.empty() ? all_kinds() : kinds;
    return std::find(words.begin(), words.end(), to_string(kind)) != words.end();
  }
  static bool has(const LayerTable& table, NormKind kind) {
    const std::vector<LayerTable::Entry>& entries = table.lines.front().entries;
    return std::any_of(entries.begin(), entries.end(), [&](const auto& e) { return e.kind == kind; });
  }

  void print_head(const Backend& backend, const LayerTable* published) const {
    if (published) print_text("{}\n\n", published->title);
    print_text(
        "{}, {}.\nMedian times in ms. train: forward, dx, dgamma, dbeta. eval: forward, with\nfrozen statistics in "
        "batch_norm. GB/s: the faster of a copy and a triad of\n288 MB, measured in turns with the norms. bound: time "
        "to move the tensors at\nthat rate: 5 in train (y from x; dx from dy and x), 8 in train for batch_norm\n(x, dy "
        "and x again for the sums), 2 in eval. A ratio below 1.00 means that the\nshape stays in a cache.\n\n{:<13} "
        "{:<16} {:>4} {:>8} {:>7} {:>5} {:>7} {:>7} {:>5}\n",
        on_gpu() ? device_words(backend) : threads_words(threads), precision, "shape", "norm", "GB/s", "train", "bound",
        "ratio", "eval", "bound", "ratio");
  }

  /// Each kind's milliseconds and ratio to layer norm, measured and as printed; with block counts also network totals.
  static void print_as_published(const LayerTable& table,
                                 const std::map<std::pair<std::string, NormKind>, NormTime>& times) {
    for (const bool training : {true, false}) {
      const auto printed = [&](const LayerTable::Entry& e) { return training ? e.train : e.eval; };
      if (printed(table.lines.front().entries.front()) == 0) continue;
      print_text("\n{:<16}{:<13}{:>8}{:>11}{:>11}{:>11}{:>10}\n", training ? "training" : "inference", "norm", "blocks",
                 "ms here", "of LN's", "published", "of LN's");
      std::map<NormKind, std::pair<double, double>> totals;
      const auto line = [](const std::string& shape, NormKind kind, int blocks, double here, double ln_here,
                           double there, double ln_there) {
        print_text("{:<16}{:<13}{:>8}{:>11.4f}{:>11.2f}{:>11.3f}{:>10.2f}\n", shape, to_string(kind),
                   blocks > 0 ? std::to_string(blocks) : "", here, here / ln_here, there, there / ln_there);
      };
      const auto of_ln = [](const LayerTable::Line& l) {
        return *std::find_if(l.entries.begin(), l.entries.end(),
                             [](const auto& e) { return e.kind == NormKind::layer_norm; });
      };
      for (const LayerTable::Line& l : table.lines) {
        const auto here = [&](NormKind kind) {
          const NormTime& t = times.at({l.shape, kind});
          return training ? t.train : t.eval;
        };
        for (const LayerTable::Entry& e : l.entries) {
          line(l.shape, e.kind, l.blocks, here(e.kind), here(NormKind::layer_norm), printed(e), printed(of_ln(l)));
          totals[e.kind].first += l.blocks * here(e.kind);
          totals[e.kind].second += l.blocks * printed(e);
        }
      }
      const std::pair<double, double> ln = totals[NormKind::layer_norm];
      if (table.lines.front().blocks == 0) continue;
      for (const auto& [kind, total] : totals)
        line("all blocks", kind, 0, total.first, ln.first, total.second, ln.second);
    }
  }
};

}  // namespace

void add_bench_norms(Command& bench) {
  auto [command, norms] = bench.add_command<BenchNorms>(
      "norms", "measure every kind of norm and compare it with the time that its memory traffic takes");
  Option shape = command
                     .add_option("--shape", norms.shapes,
                                 "input shapes, images first and channels last; the first of only two axes becomes "
                                 "images of 65 tokens, else 64, else one")
                     .show_default();
  const Option norm = command.add_option("--norm", norms.kinds, "kinds of norm to measure (default: all)");
  norm.one_of(BenchNorms::all_kinds());
  command
      .add_option("--table", norms.table,
                  "measure the shapes and norms of a published table; batch_norm: Table 5 of the batch norm paper; "
                  "dyt: the time analysis of the DyT blog")
      .one_of({"batch_norm", "dyt"})
      .excludes(shape)
      .excludes(norm);
  norms.add_precision(command);
  norms.add_threads(command);
  add_device(command, norms.device);
  norms.add_seconds(command, "seconds to measure each norm");
  norms.add_format(command);
  command.footer(
      "The limit counts each tensor that is read or written once: 5 in training (batch norm 8), 2 in evaluation. The "
      "memory's rate is that of a copy or a triad, measured in turns with the norm.");
  command.examples({"normlab bench norms --shape 65x768 4096x4096", "normlab bench norms --table dyt"});
}

}  // namespace normlab
