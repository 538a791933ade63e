#include <algorithm>
#include <map>

#include "core/backend.h"
#include "experiments/lab/bench/cases.h"
#include "experiments/lab/bench/norm_timing.h"

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

}  // namespace

std::vector<std::string> bench_norm_words() {
  std::vector<std::string> words;
  for (std::size_t k = 1; k < std::size(kNormKinds); ++k)                             // every kind except none
    if (NormKind(k) != NormKind::whiten) words.emplace_back(to_string(NormKind(k)));  // whiten is a product
  return words;
}

Measured bench_norms(const BenchOptions& o) {
  const ComputeDevice computer(o.device);
  const LayerTable* published = layer_table(o.table);
  std::vector<NormShape> shapes;
  std::vector<std::string> words = o.norms.empty() ? bench_norm_words() : o.norms;
  if (published) {
    words.clear();
    for (const LayerTable::Line& line : published->lines) shapes.push_back(parse_norm_shape(line.shape));
    for (const LayerTable::Entry& e : published->lines.front().entries) words.emplace_back(to_string(e.kind));
  } else {
    for (const std::string& text : o.shapes) shapes.push_back(parse_norm_shape(text));
  }
  ShardPool pool(o.threads);
  const Streams streams(computer.backend());
  Json rows = Json::array();
  Times times;
  for (const NormShape& s : shapes) {
    const NormTimer timer(computer.backend(), pool, streams, s, o.dtype());
    for (std::size_t k = 1; k < std::size(kNormKinds); ++k) {
      const auto kind = NormKind(k);
      if (std::find(words.begin(), words.end(), to_string(kind)) == words.end()) continue;
      const NormTime row = timer.measure(kind, o.seconds);
      times.emplace(std::pair(s.name, kind), row);
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
