// The statistics of tables against the reference's JSON files, each number by its file's tolerance.
#include <cmath>
#include <span>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/statistics/many_to_one.h"
#include "experiments/lab/statistics/proportions.h"
#include "experiments/lab/statistics/stein.h"
#include "experiments/lab/statistics/student.h"
#include "experiments/lab/tables/lr_sensitivity.h"
#include "tests/lab/statistics/known_tests.h"
#include "tests/reference/fixture.h"

namespace normlab::reference {
namespace {

using nlohmann::json;
using Numbers = std::vector<double>;

/// Collects differences; `at` says where in the file.
class Sheet {
 public:
  explicit Sheet(const std::filesystem::path& path) : file(parse_strict_json(read_file(path), path.string())) {
    rtol_ = file.at("rtol").get<double>();
  }

  void within(const std::string& at, double value, double expected, double allowed) {
    ++compared_;
    if (!(std::abs(value - expected) <= allowed)) failures_.push_back(concat(at, ": ", value, ", not ", expected));
  }
  void number(const std::string& at, double value, const json& expected) {
    const double wanted = expected.get<double>();
    // 1e-12: what is 0 but for rounding of the values' digits.
    within(at, value, wanted, rtol_ * std::abs(wanted) + 1e-12);
  }
  void maybe(const std::string& at, const std::optional<double>& value, const json& expected) {
    same(at + " (is there)", value.has_value(), !expected.is_null());
    if (value && !expected.is_null()) number(at, *value, expected);
  }
  template <class T>
  void same(const std::string& at, const T& value, const T& expected) {
    ++compared_;
    if (value != expected) failures_.push_back(concat(at, ": ", value, ", not ", expected));
  }
  std::vector<std::string> failures() {
    if (compared_ == 0) failures_.push_back("nothing was compared");
    return failures_;
  }

  json file;

 private:
  double rtol_ = 0;
  std::int64_t compared_ = 0;
  std::vector<std::string> failures_;
};

SeedValues by_seed(const json& values) {
  SeedValues result;
  for (const json& value : values) result[result.size()] = value.get<double>();
  return result;
}

Strip strip_of(const json& row) {
  Strip strip;
  strip.baseline.values = by_seed(row.at("baseline"));
  for (const json& arm : row.at("arms")) strip.rows.emplace_back().values = by_seed(arm);
  return strip;
}

}  // namespace

std::vector<std::string> check_intervals(const std::filesystem::path& path) {
  Sheet sheet(path);
  for (const json& row : sheet.file.at("single")) {
    const Numbers values = row.at("values").get<Numbers>();
    const auto interval = mean_interval(values);
    const std::string at = row.at("values").dump();
    sheet.number(at + " mean", interval->mean, row.at("mean"));
    sheet.maybe(at + " half_width", interval->half_width, row.at("half_width"));
  }
  for (const json& row : sheet.file.at("paired")) {
    const auto interval = paired_difference(by_seed(row.at("base")), by_seed(row.at("other")));
    const std::string at = row.at("other").dump();
    sheet.number(at + " mean_difference", interval->mean, row.at("mean_difference"));
    sheet.maybe(at + " half_width", interval->half_width, row.at("half_width"));
    // A strip of one row is the paired t test.
    Strip one_row;
    one_row.baseline.values = by_seed(row.at("base"));
    one_row.rows.resize(1);
    one_row.rows[0].values = by_seed(row.at("other"));
    const ManyToOne strip = many_to_one(one_row);
    sheet.maybe(at + " half_width of a strip", strip.rows[0].half_width, row.at("half_width"));
    sheet.same(at + " differs", strip.rows[0].differs, !row.at("differs").is_null() && row.at("differs").get<bool>());
  }
  for (const auto& [freedom, quantile] : sheet.file.at("t_quantiles_0.975").items())
    sheet.number("t quantile " + freedom, student_t_two_sided_quantile(0.05, std::stod(freedom)), quantile);
  return sheet.failures();
}

/// The file is of Dunnett's procedure, which tables do not use: only the gains are the same.
std::vector<std::string> check_dunnett(const std::filesystem::path& path) {
  Sheet sheet(path);
  for (const json& row : sheet.file.at("cases")) {
    const ManyToOne result = many_to_one(strip_of(row));
    for (std::size_t i = 0; row.at("design") != "independent" && i < result.rows.size(); ++i)
      sheet.number(concat(result.rows.size(), " arms, arm ", i, " difference"), *result.rows[i].gain,
                   row.at("difference").at(i));
  }
  return sheet.failures();
}

std::vector<std::string> check_holm(const std::filesystem::path& path) {
  Sheet sheet(path);
  for (const json& row : sheet.file.at("cases")) {
    Strip strip = strip_of(row);
    strip.baseline.apart = true;  // each row by its own runs
    const ManyToOne result = many_to_one(strip);
    Numbers p;
    for (const auto& arm : result.rows) p.push_back(student_t_two_sided(*arm.gain / *arm.standard_error, arm.freedom));
    const Numbers adjusted = holm_adjusted(p);
    for (std::size_t i = 0; i < result.rows.size(); ++i) {
      const json& test = row.at("tests").at(i);
      const auto& arm = result.rows[i];
      const std::string at = concat(result.rows.size(), " arms, arm ", i, " ");
      sheet.number(at + "mean", *arm.gain, test.at("mean"));
      sheet.number(at + "standard_error", *arm.standard_error, test.at("standard_error"));
      sheet.number(at + "statistic", *arm.gain / *arm.standard_error, test.at("statistic"));
      sheet.number(at + "p", p[i], test.at("p"));
      sheet.number(at + "p_holm", adjusted[i], test.at("p_holm"));
      sheet.number(at + "p of the strip", *arm.p, test.at("p_holm"));
      sheet.same(at + "rejected", arm.differs, test.at("rejected").get<bool>());
      sheet.same(at + "interval and mark", *arm.low >= 0 || *arm.high <= 0, arm.differs);
    }
  }
  for (const json& row : sheet.file.at("given_p")) {
    const Numbers adjusted = holm_adjusted(row.at("p").get<Numbers>());
    for (std::size_t i = 0; i < adjusted.size(); ++i)
      sheet.number(row.at("p").dump(), adjusted[i], row.at("p_holm").at(i));
  }
  return sheet.failures();
}

std::vector<std::string> check_proportions(const std::filesystem::path& path) {
  Sheet sheet(path);
  for (const json& row : sheet.file.at("clopper_pearson")) {
    const Bounds bounds = clopper_pearson(row.at("hits").get<std::int64_t>(), row.at("n").get<std::int64_t>(),
                                          row.at("level").get<double>());
    sheet.number(row.dump() + " low", bounds.low, row.at("low"));
    sheet.number(row.dump() + " high", bounds.high, row.at("high"));
  }
  for (const json& row : sheet.file.at("mcnemar"))
    sheet.number(row.dump(),
                 mcnemar_p(row.at("only_first").get<std::int64_t>(), row.at("only_second").get<std::int64_t>()),
                 row.at("p"));
  return sheet.failures();
}

std::vector<std::string> check_planning(const std::filesystem::path& path) {
  Sheet sheet(path);
  for (const json& row : sheet.file.at("power"))
    sheet.number(row.dump(),
                 paired_t_power(row.at("gain").get<double>() / row.at("sd").get<double>(),
                                row.at("pairs").get<std::size_t>(), row.at("alpha").get<double>()),
                 row.at("power"));
  for (const json& row : sheet.file.at("smallest_gain"))
    sheet.number(row.dump(),
                 smallest_gain(row.at("sd").get<double>(), row.at("pairs").get<std::size_t>(),
                               row.at("power").get<double>(), row.at("alpha").get<double>()),
                 row.at("smallest_gain"));
  for (const json& row : sheet.file.at("stein")) {
    Numbers values = row.at("first").get<Numbers>();
    const double wanted = row.at("target_half_width").get<double>();
    const SteinPlan plan = stein_plan(values, wanted);
    const std::string at = row.at("first").dump() + " ";
    sheet.number(at + "first_sd", plan.first_sd, row.at("first_sd"));
    sheet.number(at + "quantile", plan.quantile, row.at("quantile"));
    sheet.same(at + "n", plan.n, row.at("n").get<std::size_t>());
    // The strip whose baseline is 0 for all seeds has these values for paired differences.
    Strip strip;
    strip.rows.resize(1);
    strip.rows[0].values = by_seed(row.at("first"));
    std::set<std::uint64_t> seeds;
    for (const auto& [seed, value] : strip.rows[0].values) strip.baseline.values[seed] = 0, seeds.insert(seed);
    sheet.same(at + "n of a sweep", stein_seeds({&strip, 1}, seeds, wanted, 1'000'000).wanted,
               row.at("n").get<std::size_t>());
    for (const json& value : row.at("second")) values.push_back(value.get<double>());
    SeedValues staged;
    for (const double value : values) staged[staged.size()] = value;
    const Interval interval = *staged_interval(staged, seeds);
    sheet.number(at + "mean", interval.mean, row.at("mean"));
    sheet.maybe(at + "half_width", interval.half_width, row.at("half_width"));
    sheet.same(at + "complete", plan.n == values.size(), row.at("complete").get<bool>());
  }
  return sheet.failures();
}

std::vector<std::string> check_equivalence(const std::filesystem::path& path) {
  Sheet sheet(path);
  for (const json& row : sheet.file.at("cases")) {
    const double p = *paired_equivalence(row.at("differences").get<Numbers>(), row.at("margin").get<double>());
    const std::string at = row.at("differences").dump() + " ";
    sheet.number(at + "p", p, row.at("p"));
    sheet.same(at + "equivalent", p < 0.05, row.at("equivalent").get<bool>());
  }
  return sheet.failures();
}

std::vector<std::string> check_lr_sensitivity(const std::filesystem::path& path) {
  Sheet sheet(path);
  for (const json& row : sheet.file.at("rows")) {
    Numbers counted;
    for (const json& loss : row.at("losses"))
      counted.push_back(counted_loss(loss.is_null() ? std::nullopt : std::optional(loss.get<double>()),
                                     row.at("initial_loss").get<double>()));
    const double expected = row.at("sensitivity").get<double>();
    const auto label = row.at("label").get<std::string>();
    sheet.within(label, lr_sensitivity(counted), expected, sheet.file.at("rtol").get<double>() * expected);
    sheet.same(label + " (spacing)", evenly_spaced(row.at("rates").get<Numbers>()), true);
  }
  return sheet.failures();
}

}  // namespace normlab::reference
