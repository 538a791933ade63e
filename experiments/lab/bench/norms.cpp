#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <map>

#include "core/backend.h"
#include "core/error.h"
#include "experiments/lab/bench/cases.h"
#include "experiments/lab/bench/op_timing.h"
#include "experiments/lab/descriptor/reader.h"
#include "nn/model/layers.h"

namespace normlab {
namespace {

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

const LayerTable* layer_table(const std::string& word) {
  constexpr NormKind kLN = NormKind::layer_norm, kBN = NormKind::batch_norm;
  static const LayerTable kTables[] = {
      {"batch_norm",
       "Leveraging Batch Normalization for Vision Transformers, Table 5, V100",
       {{"128x56x56x96", 2, {{kLN, 14.07, 6.14}, {kBN, 4.20, 1.83}}},
        {"128x28x28x192", 2, {{kLN, 3.92, 1.99}, {kBN, 2.20, 0.81}}},
        {"128x14x14x384", 6, {{kLN, 1.19, 0.53}, {kBN, 1.14, 0.41}}},
        {"128x7x7x768", 2, {{kLN, 0.39, 0.18}, {kBN, 0.54, 0.26}}}}},
      {"dyt",
       "Tanh as LayerNorm in Small Vision Transformers, Time analysis (inference)",
       {{"65x768", 0, {{NormKind::rms_norm, 0, 0.112}, {kLN, 0, 0.053}, {NormKind::dyt, 0, 0.075}}},
        {"4096x4096", 0, {{NormKind::rms_norm, 0, 1.936}, {kLN, 0, 0.805}, {NormKind::dyt, 0, 0.535}}}}}};
  for (const LayerTable& table : kTables)
    if (table.word == word) return &table;
  return nullptr;
}

using Times = std::map<std::pair<std::string, NormKind>, NormTime>;

/// Each kind's milliseconds and ratio to layer norm, here and as printed; with block counts also network totals.
Json beside_published(const LayerTable& table, const Times& times) {
  Json rows = Json::array();
  for (const bool training : {true, false}) {
    const auto printed = [&](const LayerTable::Entry& e) { return training ? e.train : e.eval; };
    if (printed(table.lines.front().entries.front()) == 0) continue;
    struct Pair {
      double here = 0, there = 0;
    };
    using OfKinds = std::map<NormKind, Pair>;
    const auto add = [&](const char* shape, NormKind kind, Json blocks, const OfKinds& all) {
      const auto [here, there] = all.at(kind);
      const Pair ln = all.at(NormKind::layer_norm);
      rows.push_back({{"pass", training ? "training" : "inference"},
                      {"shape", shape},
                      {"norm", to_string(kind)},
                      {"blocks", std::move(blocks)},
                      {"here_ms", here},
                      {"here_ratio", here / ln.here},
                      {"published_ms", there},
                      {"published_ratio", there / ln.there}});
    };
    OfKinds totals;
    for (const LayerTable::Line& line : table.lines) {
      OfKinds pairs;
      for (const LayerTable::Entry& e : line.entries) {
        const NormTime& t = times.at({line.shape, e.kind});
        const Pair pair = pairs[e.kind] = {training ? t.train : t.eval, printed(e)};
        totals[e.kind].here += line.blocks * pair.here;
        totals[e.kind].there += line.blocks * pair.there;
      }
      for (const LayerTable::Entry& e : line.entries)
        add(line.shape, e.kind, line.blocks > 0 ? Json(line.blocks) : Json(""), pairs);
    }
    if (table.lines.front().blocks == 0) continue;
    for (const auto& [kind, total] : totals) add("all blocks", kind, "", totals);
  }
  return rows;
}

/// One part of the rows, with its own tape.
struct RowsPart {
  Tensor x, dy;  // [images, rows, cols]
  std::int64_t first_image, images;
  Arena memory;
  Tape tape;
  RowsPart(Backend& backend, Tensor x_of, Tensor dy_of, std::int64_t first, std::int64_t count)
      : x(x_of), dy(dy_of), first_image(first), images(count), memory(backend.memory()), tape(backend, memory) {}
};

}  // namespace

NormShape parse_norm_shape(const std::string& text) {
  NormShape s{text, 0, 1, 0};
  std::vector<std::int64_t> axes;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    const std::string axis = text.substr(begin, end - begin);
    if (axis.empty() || axis.size() > 9 || axis.find_first_not_of("0123456789") != std::string::npos ||
        std::stoll(axis) == 0)
      throw InputError(fmt::format("--shape {}: expected whole numbers above 0 such as 4096x4096", text));
    axes.push_back(std::stoll(axis));
    begin = end + 1;
  }
  if (axes.size() < 2) throw InputError(fmt::format("--shape {}: expected at least two axes", text));
  constexpr double kMost = 1 << 30;
  double size = 1;
  for (const std::int64_t axis : axes) size *= double(axis);
  if (size > kMost) throw InputError(fmt::format("--shape {}: more than 2^30 elements", text));
  s.images = axes.front();
  s.cols = axes.back();
  for (std::size_t i = 1; i + 1 < axes.size(); ++i) s.rows_per_image *= axes[i];
  if (axes.size() == 2) {
    for (const std::int64_t rows : {65, 64})
      if (s.rows_per_image == 1 && s.images % rows == 0) s.rows_per_image = rows;
    s.images /= s.rows_per_image;
  }
  return s;
}

namespace {
std::string name_of(const NormSpec& spec) {
  return spec.formula ? spec.formula->text : std::string(to_string(spec.kind));
}
}  // namespace

NormTime time_norm(Backend& backend, ShardPool& pool, const Streams& streams, const NormShape& s, DType dtype,
                   const NormSpec& spec, double seconds) {
  Arena memory(backend.memory());
  const Tensor x = noise(backend, memory, {s.size()}, dtype, 2.0f, 1),
               dy = noise(backend, memory, {s.size()}, dtype, 2.0f, 1);
  const Statistics statistics = statistics_of(spec);
  // Splits rows evenly over threads; keeps images whole if their rows share statistics.
  const std::int64_t unit = is_of_one_token(spec) ? 1 : s.rows_per_image;
  const std::int64_t cuts = backend.whole_batch() ? 1 : pool.threads();
  const std::int64_t units = s.images * s.rows_per_image / unit, shards = std::min<std::int64_t>(cuts, units);
  ParameterSet parameters(backend.memory());
  const Norm norm(parameters, {}, &Placement::pooled, {.pooled = spec}, {.embed_dim = s.cols});
  parameters.allocate(DType::f32, shards, dtype == DType::bf16);
  for (std::size_t p = 0; p < parameters.parameters().size(); ++p)
    backend.fill(parameters.value(static_cast<int>(p)), parameters.parameters()[p].start);
  parameters.refresh_copy(backend, pool);
  std::deque<RowsPart> parts;
  for (std::int64_t i = 0; i < shards; ++i) {
    const std::int64_t first = units * i / shards, count = units * (i + 1) / shards - first;
    const auto cut = [&](const Tensor& t) { return t.reshape({units, unit, s.cols}).slice(first, count); };
    parts.emplace_back(backend, cut(x), cut(dy), first, count);
  }
  const auto forward = [&](Collective& c, bool training) {
    RowsPart& part = parts[static_cast<std::size_t>(c.rank())];
    part.tape.reset();
    const Step step{.parameters = parameters, .training = training};
    const Shard shard{.step = step,
                      .tape = part.tape,
                      .lane = training ? c.rank() : -1,
                      .slice = {part.images, part.first_image, s.images, &c}};
    return norm(part.tape.input(part.x, training), shard);
  };
  const Timed training(backend, pool, shards, statistics == Statistics::batch, [&](Collective& c) {
    RowsPart& part = parts[static_cast<std::size_t>(c.rank())];
    part.tape.backward(forward(c, true), part.dy);
  });
  const Timed evaluation(backend, pool, shards, false, [&](Collective& c) { forward(c, false); });
  const Timed copy = stream(backend, pool, streams, false), triad = stream(backend, pool, streams, true);
  // Unavoidable reads and writes of large tensors. In training, batch statistics add one in the forward pass (x) and two
  // in the backward pass (x and dy), since every value must be read before the first result is known.
  const double train_passes = statistics == Statistics::batch ? 3 + 5 : 2 + 3, eval_passes = 2;
  const double bytes = double(x.bytes());
  std::vector<double> rates, trains, evals, train_ratios, eval_ratios;
  constexpr std::size_t kRounds = 5;
  for (const BenchClock::time_point begin = BenchClock::now();
       rates.size() < kRounds || seconds_since(begin) < seconds;) {
    // A written cache line counts once, as in the bounds.
    rates.push_back(std::max(2 * streams.bytes() / copy.round(), 3 * streams.bytes() / triad.round()));
    trains.push_back(training.round());
    evals.push_back(evaluation.round());
    train_ratios.push_back(trains.back() * rates.back() / (train_passes * bytes));
    eval_ratios.push_back(evals.back() * rates.back() / (eval_passes * bytes));
  }
  const double rate = median(rates), pass = 1e3 * bytes / rate;
  return {name_of(spec),        rate,
          1e3 * median(trains), train_passes * pass,
          median(train_ratios), 1e3 * median(evals),
          eval_passes * pass,   median(eval_ratios)};
}

std::vector<std::string> bench_norm_words() {
  std::vector<std::string> words;
  for (std::size_t k = 1; k < kWordCount<NormKind>; ++k)                              // every kind except none
    if (NormKind(k) != NormKind::whiten) words.emplace_back(to_string(NormKind(k)));  // whiten is a product
  return words;
}

Measured bench_norms(const BenchOptions& o) {
  const ComputeDevice computer(o.device);
  const LayerTable* published = layer_table(o.table);
  std::vector<NormShape> shapes;
  std::vector<std::string> words = o.norms;
  if (words.empty() && o.formulas.empty()) {
    words = bench_norm_words();
    for (const NormParts& kind : kNormKinds)  // on a GPU these need a compiler
      if (kind.inner > 0) std::erase(words, kind.word);
  }
  if (published) {
    words.clear();
    for (const LayerTable::Line& line : published->lines) shapes.push_back(parse_norm_shape(line.shape));
    for (const LayerTable::Entry& e : published->lines.front().entries) words.emplace_back(to_string(e.kind));
  } else {
    for (const std::string& text : o.shapes) shapes.push_back(parse_norm_shape(text));
  }
  std::vector<NormSpec> norms;
  for (std::size_t k = 1; k < kWordCount<NormKind>; ++k)
    if (std::find(words.begin(), words.end(), to_string(NormKind(k))) != words.end())
      norms.push_back(norm_of(NormKind(k)));
  for (const std::string& text : o.formulas) norms.push_back(read_formula_option(text, "--formula"));
  ShardPool pool(o.threads);
  const Streams streams(computer.backend());
  Json rows = Json::array();
  Times times;
  for (const NormShape& s : shapes) {
    for (const NormSpec& norm : norms) {
      const NormTime row = time_norm(computer.backend(), pool, streams, s, o.dtype(), norm, o.seconds);
      times.emplace(std::pair(s.name, norm.kind), row);
      rows.push_back({{"shape", s.name},
                      {"norm", row.norm},
                      {"bandwidth_gb_per_second", rounded(row.rate * 1e-9, 2)},
                      {"train_ms", rounded(row.train, 5)},
                      {"train_bound_ms", rounded(row.train_bound, 5)},
                      {"train_ratio", rounded(row.train_ratio, 3)},
                      {"eval_ms", rounded(row.eval, 5)},
                      {"eval_bound_ms", rounded(row.eval_bound, 5)},
                      {"eval_ratio", rounded(row.eval_ratio, 3)}});
    }
  }
  Measured result{{{"device", device_words(computer.backend())}, {"threads", o.threads}, {"precision", o.precision}},
                  o.threads};
  if (published) {
    result.document["table"] = o.table;
    result.text = {{"table", published->title}, {"published", beside_published(*published, times)}};
  }
  result.document["rows"] = std::move(rows);
  return result;
}

}  // namespace normlab
