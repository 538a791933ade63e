// Figures of made-up measurements whose places in the charts are known.
#include "experiments/lab/pictures/figures.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "experiments/lab/tables/sweep_table.h"
#include "nn/probes/site_probe.h"
#include "tests/lab/pictures/fake_results.h"

using namespace normlab;

namespace {

const char* const kTwoNorms = R"({"dataset": {"name": "shapes", "train_images": 200, "eval_images": 50},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}, "train": {"epochs": 4, "batch_size": 20},
  "sweep": {"model.placement": ["pre_pre", "bn_ffnbn"]}, "seeds": 2, "baseline": {"model.placement": "pre_pre"}})";

/// Metrics of each trial by `lines`, and a result: done, or diverged where `diverged_at` says so.
struct Made {
  TemporaryFolder folder;
  Experiment experiment;
  ResultStore store{folder / "results"};
  TableModel table;
  std::vector<TrialCurves> trials;
  template <class Lines>
  Made(const std::string& descriptor, const Lines& lines,
       const std::function<std::optional<std::int64_t>(const Trial&)>& diverged_at = nullptr)
      : experiment(experiment_of(folder, descriptor)) {
    for (const Trial& trial : experiment.trials) {
      const TrialFolder made = store.trial(trial.id);
      std::filesystem::create_directories(made.metrics(1).parent_path());
      MetricsLog log(made.metrics(1));
      for (const MetricsLine& line : lines(trial)) log.append(line);
      const auto step = diverged_at ? diverged_at(trial) : std::nullopt;
      if (!step) log.append({50, 1, fake_values(trial, 0.5, kFakeEvaluations), {}});
      TrialResult result = fake_result(trial, step ? TrialEnd::diverged : TrialEnd::done, 0.5);
      if (step) result.diverged_step = result.steps = *step;
      made.publish_result(result);
    }
    table = sweep_table_model(experiment, store, {});
    trials = read_curves(experiment, store, {}).trials;
  }
  FigureInput input() const { return {experiment, table, trials}; }
};

std::vector<Chart> draw(std::string_view word, const FigureInput& input) {
  for (const FigureRow& row : figure_rows())
    if (row.word == word) return row.draw(input);
  FAIL("no such figure");
  return {};
}

/// The value of a series of a panel at a category or position.
double value(const Chart& chart, const std::string& heading, const std::string& label, double at) {
  for (const ChartPanel& panel : chart.panels)
    if (panel.heading == heading)
      for (const ChartSeries& series : panel.series)
        if (series.label == label)
          for (const BandPoint& point : series.points)
            if (point.at == at) return point.mean;
  FAIL(heading, ", ", label, " at ", at);
  return 0;
}

}  // namespace

TEST_CASE("figures: xspp takes each row's own axis, and the last measurement before a divergence") {
  const auto lines = [](const Trial& trial) {
    std::vector<MetricsLine> out;
    for (const std::int64_t step : {0, 10, 20}) {
      MetricsLine line{step, 0.1, {}, {}};
      for (const char* measure : {"afsm", "afv", "afvr"})
        for (int block = 0; block < 2; ++block)
          for (const char* branch : {"attn", "mlp"}) {
            const std::string layer = fmt::format("blocks.{}.{}", block, branch);
            line.values[fmt::format("{}.position/{}", measure, layer)] = 1 + double(step);
            line.values[fmt::format("{}.channel/{}", measure, layer)] =
                1000 + double(step) + 10 * double(trial.config.seed);
          }
      out.push_back(line);
      if (trial.row == 1 && trial.config.seed == 1 && step == 10) break;
    }
    return out;
  };
  const Made made(kTwoNorms, lines, [](const Trial& trial) -> std::optional<std::int64_t> {
    if (trial.row == 1 && trial.config.seed == 1) return 12;
    return std::nullopt;
  });
  const std::vector<Chart> charts = draw("xspp", made.input());
  REQUIRE(charts.size() == 1);
  const Chart& chart = charts[0];
  CHECK(chart.categories == std::vector<std::string>{"0 attn", "0 mlp", "1 attn", "1 mlp"});
  CHECK(value(chart, "AFSM, step 0, the start", "pre_pre", 3) == 1);
  CHECK(value(chart, "AFV, step 10", "bn_ffnbn", 0) == 1015);  // the mean of both seeds
  CHECK(value(chart, "AFVR, step 20", "bn_ffnbn", 1) == 1020);
  CHECK(value(chart, "AFSM, last measurement before a divergence", "bn_ffnbn", 0) == 1020);
}

TEST_CASE("figures: gradients average the last measured steps, the embedding is first") {
  const Made made(kTwoNorms, [](const Trial&) {
    std::vector<MetricsLine> out;
    for (std::int64_t step = 0; step < 5; ++step)
      out.push_back({step,
                     0.1,
                     {{"grad_norm/patch_embed", double(step)},
                      {"grad_norm/blocks.0.mlp", 7},
                      {"grad_norm/blocks.1.attn", 8},
                      {"grad_norm/blocks.0.attn", 6},
                      {"grad_norm/global", 9},
                      {"grad_norm/head", 1}},
                     {}});
    return out;
  });
  FigureInput input = made.input();
  input.last = 2;
  const Chart chart = draw("gradients", input).front();
  CHECK(chart.categories == std::vector<std::string>{"embed", "0 attn", "0 mlp", "1 attn", "head"});
  CHECK(value(chart, "", "pre_pre", 0) == 3.5);
  CHECK(value(draw("embedding", input).front(), "", "bn_ffnbn", 4) == 4);
}

TEST_CASE("figures: the scales of a patch are a picture per colour, the mean over the seeds") {
  const Made made(kTwoNorms, [](const Trial& trial) {
    MetricsLine line{0, 0.1, {}, {}};
    for (int i = 0; i < 8 * 8 * 3; ++i) line.lists["stem_scale.gain"].push_back(i % 3 + double(trial.config.seed));
    return std::vector<MetricsLine>{line};
  });
  const Chart chart = draw("stem_scale", made.input()).front();
  REQUIRE(chart.panels.size() == 2);
  REQUIRE(chart.panels[0].pixels.size() == 3);
  CHECK(chart.panels[0].pixels[2].label == "B");
  CHECK(chart.panels[0].pixels[2].values == std::vector<double>(64, 2.5));
}

TEST_CASE("figures: a loss without a block begins with that of all blocks") {
  const Made made(kTwoNorms, [](const Trial&) {
    return std::vector<MetricsLine>{{50, 1, {{"without_block.loss/0", 3}, {"without_block.loss/1", 2.5}}, {}}};
  });
  const Chart chart = draw("without_block", made.input()).front();
  CHECK(chart.categories == std::vector<std::string>{"all", "0", "1"});
  CHECK(value(chart, "", "pre_pre", 0) == 2.0 / kFakeEvaluations);
  CHECK(value(chart, "", "pre_pre", 1) == 3);
}

TEST_CASE("figures: one without measurements names the probe to set and its cost") {
  const Made made(kTwoNorms, [](const Trial&) { return std::vector<MetricsLine>(); });
  const FigureInput input = made.input();
  for (const FigureRow& row : figure_rows()) {
    if (!row.probe) continue;
    CHECK(row.draw(input).empty());
    const std::string words = missing_words(row, input);
    CHECK_MESSAGE(words.find(fmt::format("set \"probes\": {{\"{}\": ", row_of(*row.probe).word)) != words.npos, words);
    CHECK_MESSAGE(words.find(row_of(*row.probe).cost > 1 ? "% to each measured step" : "it adds no measurable time") !=
                      words.npos,
                  words);
  }
  CHECK(!draw("curves", input).empty());
}

TEST_CASE("figures: panels keep the rows of a baseline together, and divide many rows evenly") {
  const auto panels_of = [](const std::string& sweep) {
    std::string descriptor = kTwoNorms;
    descriptor = descriptor.substr(0, descriptor.find("\"sweep\"")) + "\"sweep\": " + sweep + "}";
    const Made made(descriptor, [](const Trial&) {
      return std::vector{MetricsLine{5, 0.1, {{"update/global", 1}}, {}}};
    });
    std::vector<std::string> panels;  // a letter for each line, which names its style
    for (const Chart& chart : draw("updates", made.input()))
      for (const ChartPanel& panel : chart.panels) {
        std::string& lines = panels.emplace_back();
        for (const ChartSeries& series : panel.series) lines += char('a' + series.style);
      }
    return panels;
  };
  const std::string three = R"("model.placement": ["pre_pre", "bn", "bn_ffnbn"]},)";
  const std::string baseline = R"("baseline": {"model.placement": "pre_pre"})";
  CHECK(panels_of(R"({"train.optimizer.lr": [1e-4, 1e-3, 1e-2], )" + three + baseline) ==
        std::vector<std::string>{"abcdef", "abc"});
  CHECK(panels_of(R"({"train.optimizer.lr": [1e-4, 1e-3], )" + three + baseline) == std::vector<std::string>{"abcdef"});
  CHECK(panels_of(R"({"train.optimizer.lr": [1, 2, 3, 4, 5, 6, 7, 8, 9]})") ==
        std::vector<std::string>{"abcd", "abcde"});
}

TEST_CASE("figures: each panel of a large strip has its baseline, whose numbers are written once") {
  std::string descriptor = kTwoNorms;
  descriptor = descriptor.substr(0, descriptor.find("\"sweep\"")) +
               R"("sweep": {"model.placement": ["post_pre", "post_post", "sub_ln", "pre_pre", "dpn", "bn", "bn_ffnbn",
                 "pre_post", "normformer", "prepost_pre"]}, "seeds": 1, "baseline": {"model.placement": "pre_pre"}})";
  const Made made(descriptor, [](const Trial& trial) {
    return std::vector{MetricsLine{5, 0.1, {{"update/global", 1 + double(trial.row)}}, {}}};
  });
  const std::vector<Chart> charts = draw("updates", made.input());
  REQUIRE(charts.size() == 1);
  REQUIRE(charts[0].panels.size() == 2);
  std::size_t rows = 0;
  for (const ChartPanel& panel : charts[0].panels) {
    CHECK(panel.series[0].label == "pre_pre");
    CHECK(panel.series[0].style == 0);
    CHECK(panel.series[0].points.at(0).mean == 4);
    CHECK(panel.series.size() <= kChartStyles);
    rows += panel.series.size() - 1;
  }
  CHECK(rows == 9);
  CHECK(heading_of(charts[0].panels[1]) == "2 of 2");
  const std::string csv = chart_csv(charts[0]);
  CHECK(csv.find("pre_pre,5,4,4,4,1\n") != csv.npos);
  CHECK(csv.find("pre_pre,5,4,4,4,1\n") == csv.rfind("pre_pre,5,4,4,4,1\n"));
}

TEST_CASE("figures: rows without a picture are named with the reason") {
  const Made made(kTwoNorms, [](const Trial& trial) {
    MetricsLine line{0, 0.1, {{"grad_norm/head", 1}}, {}};
    if (trial.row == 0) line.lists["stem_scale.gain"] = std::vector<double>(8 * 8 * 3, 1);
    return std::vector{line};
  });
  const auto left_out = [&](std::string_view word, const FigureInput& input) {
    for (const FigureRow& row : figure_rows())
      if (row.word == word) return draw_figure(row, input).at(0).left_out;
    return std::string("no such figure");
  };
  FigureInput input = made.input();
  CHECK(left_out("gradients", input).empty());
  CHECK(left_out("strip", input).empty());
  CHECK(left_out("stem_scale", input) == "Left out, without what this figure shows: bn_ffnbn");
  std::vector<TrialCurves> trials = made.trials;
  for (TrialCurves& trial : trials)
    if (trial.row == 1) trial.lines.clear();
  const FigureInput fewer{made.experiment, made.table, trials};
  CHECK(left_out("gradients", fewer) == "Left out, without any metrics: bn_ffnbn");
  for (const FigureRow& row : figure_rows())
    if (row.word == "gradients")
      CHECK(caption_of(draw_figure(row, fewer).at(0)).ends_with(" Left out, without any metrics: bn_ffnbn."));
}

TEST_CASE("figures: curves are a chart per metric, or with overlay a panel per metric with all rows") {
  const Made made(kTwoNorms, [](const Trial&) {
    return std::vector{MetricsLine{10, 0.1, {{"train/loss", 2}, {"eval/accuracy", 0.25}}, {}}};
  });
  FigureInput input = made.input();
  std::vector<std::string> names;
  for (const Chart& chart : draw("curves", input)) {
    names.push_back(chart.name);
    CHECK(chart.panels.size() == 2);
  }
  CHECK(names == std::vector<std::string>{"curves-train-loss", "curves-eval-loss", "curves-eval-accuracy"});
  input.overlay = true;
  const std::vector<Chart> charts = draw("curves", input);
  REQUIRE(charts.size() == 1);
  CHECK(charts[0].panels.size() == 3);
  CHECK(value(charts[0], "eval/accuracy [%]", "bn_ffnbn", 10) == 25);
  CHECK(value(charts[0], "train/loss", "pre_pre", 10) == 2);
}

TEST_CASE("figures: a histogram is a density, flat around zero for values that are spread evenly") {
  const Made made(kTwoNorms, [](const Trial&) {
    MetricsLine line{0, 0.1, {{"activation.mean/final", 0}}, {}};
    std::vector<double>& bins = line.lists["activation.bins/final"];
    for (std::size_t b = 0; b < kActivationBins; ++b)
      bins.push_back(bin_edge(b) == 0 ? 2 : std::abs(bin_edge(b)) >= 1 ? 0 : std::abs(bin_edge(b)) * 4096);
    return std::vector{line};
  });
  const Chart chart = draw("activations", made.input()).at(1);
  CHECK(chart.name == "activations-histogram");
  for (const BandPoint& point : chart.panels.at(0).series.at(0).points) CHECK(point.mean == doctest::Approx(0.5));
  REQUIRE(chart.marks.size() == 7);
  for (std::size_t i = 0; i < 7; ++i)
    CHECK(chart.marks[i].first - 24 == doctest::Approx(24 - chart.marks[6 - i].first));
  CHECK(chart.marks[0].second == "−100");
  CHECK(chart.marks[3] == std::pair(24.0, std::string("0")));
  CHECK(chart.marks[4].second == "0.01");
  CHECK(chart.marks[4].first == doctest::Approx(24 + std::log2(0.01) + 12.5));
}

TEST_CASE("figures: thirty-eight rows of five seeds stay below the largest size") {
  std::string lrs;
  for (int i = 1; i <= 38; ++i) lrs += fmt::format("{}{}", i == 1 ? "" : ", ", i * 1e-4);
  std::string descriptor = kTwoNorms;
  const auto sweep = descriptor.find("\"sweep\"");
  descriptor = descriptor.substr(0, sweep) + "\"sweep\": {\"train.optimizer.lr\": [" + lrs + "]}, \"seeds\": 5}";
  const Made made(descriptor, [](const Trial& trial) {
    std::vector<MetricsLine> out;
    for (std::int64_t step = 0; step < 50; step += 5) {
      MetricsLine line{step, 0.1, {}, {}};
      for (int block = 0; block < 12; ++block)
        for (const char* branch : {"attn", "mlp"})
          for (const char* measure : {"afsm.position", "afv.position", "afvr.position", "grad_norm", "update",
                                      "attention.entropy", "attention.largest_logit", "mapping.curvature"})
            line.values[fmt::format("{}/blocks.{}.{}", measure, block, branch)] =
                1 + 0.1 * double(step) + 0.01 * double(trial.row) + 0.3 * block;
      line.values["grad_norm/patch_embed"] = 2;
      out.push_back(line);
    }
    return out;
  });
  const FigureInput input = made.input();
  std::size_t files = 0;
  for (const Chart& chart : measured_charts(input))
    for (const PictureFile& file : chart_files(chart)) {
      CAPTURE(file.name);
      CHECK(file.svg.size() < 300'000);
      ++files;
    }
  CHECK(files >= 6);
}

TEST_CASE("figures: a mapping leaves out points whose token is not a number") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Made made(kTwoNorms, [&](const Trial&) {
    const std::string site = "blocks.0.attn.pre";
    MetricsLine line{10, 0.2, {{"mapping.curvature/" + site, 1}}, {}};
    line.lists = {{"mapping.in/" + site, {1, 2, 3}},
                  {"mapping.out/" + site, {1, 2, 3}},
                  {"mapping.token/" + site, {0, nan, 3}},
                  {"mapping.channel/" + site, {0, 1, 2}}};
    return std::vector{line};
  });
  const Chart chart = draw("mapping", made.input()).at(0);
  std::size_t points = 0;
  for (const ChartSeries& series : chart.panels.at(0).series)
    if (series.look == ChartLook::dots) points += series.points.size();
  CHECK(points == 2);
}
