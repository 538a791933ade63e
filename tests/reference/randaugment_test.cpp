// Every operation of RandAugment in its three dialects, with the arguments of the files and with those that the level
// in a tensor's name means here; the lists and tables of arguments.
#include <algorithm>
#include <cmath>

#include "experiments/lab/base/files.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/data/ops/randaugment.h"
#include "tests/reference/fixture.h"

namespace normlab::reference {
namespace {

using Dialect = RandAugmentDialect;

/// An operation by a library's name: "ContrastFixed", "PosterizeIncreasing", "TranslateXRel".
struct Named {
  AugmentOp op;
  bool increasing, repaired;
};
Named named(std::string name) {
  const auto take = [&](std::string_view ending) {
    if (!name.ends_with(ending)) return false;
    name.erase(name.size() - ending.size());
    return true;
  };
  const bool increasing = take("Increasing"), repaired = take("Fixed");
  take("Rel");
  std::string snake;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') {
      if (!snake.empty()) snake += '_';
      snake += static_cast<char>(c - 'A' + 'a');
    } else {
      snake += c;
    }
  }
  for (int i = 0; i <= static_cast<int>(AugmentOp::cutout); ++i) {
    if (word_of(static_cast<AugmentOp>(i)) == snake) return {static_cast<AugmentOp>(i), increasing, repaired};
  }
  throw InputError(concat("there is no rule for the operation ", name));
}

Image image_of(const Fixture& f, const std::string& tensor) {
  Image image;
  image.resize(f.shape(tensor)[0], f.shape(tensor)[1]);
  const std::vector<double> values = f.numbers(tensor);
  std::transform(values.begin(), values.end(), image.pixels.begin(), [](double v) { return std::uint8_t(v); });
  return image;
}

void add(Results& results, const std::string& name, const Image& image) {
  results.add(name, {image.height, image.width, Image::kChannels}, {image.pixels.begin(), image.pixels.end()});
}

bool near(double a, double b, double rtol) { return std::abs(a - b) <= rtol * std::max(std::abs(a), std::abs(b)); }

/// "m15", "l8.73_negative", "l9_negative_bicubic".
double level_of(const std::string& key) { return std::stod(key.substr(1)); }
bool is_negative(const std::string& key) { return key.find("_negative") != std::string::npos; }

/// What the level of `key` means must be what the file says.
void check_argument(const Fixture& f, const RandAugment& augment, AugmentOp op, const std::string& key, double expected,
                    const Image& image) {
  double ours = augment.argument(op, level_of(key), is_negative(key), image.height, image.width);
  const bool shortened = f.config().contains("translate_const") && !f.config().at("translate_const").is_null();
  if (shortened) ours *= f.config().at("translate_const").get<double>() / 100;
  if (!near(ours, expected, 1e-9))
    throw InputError(concat(f.name(), ": argument of ", key, " is ", ours, " here and ", expected, " there"));
}

/// Lists and arguments by level and sign ("+8.41", "-5", "15") of one dialect.
std::vector<std::string> check_arguments(const nlohmann::json& file, const RandAugmentConfig& base) {
  std::vector<std::string> failures;
  const double rtol = file.at("rtol").get<double>();
  for (const auto& [name, levels] : file.at("arguments").items()) {
    const Named op = named(name);
    RandAugmentConfig config = base;
    config.increasing = op.increasing;
    const RandAugment augment(config);
    for (const auto& [label, argument] : levels.items()) {
      const double ours = augment.argument(op.op, std::abs(std::stod(label)), label[0] == '-', 32, 28);
      const double theirs = argument.is_null() ? 0 : argument.get<double>();
      if (!near(ours, theirs, rtol))
        failures.push_back(concat(name, " at ", label, ": ", ours, " here and ", theirs, " there"));
    }
    if (augment.is_signed(op.op) != (file.at("signed").dump().find('"' + name + '"') != std::string::npos) &&
        (base.dialect == Dialect::big_vision || op.increasing))
      failures.push_back(concat(name, ": another sign"));
  }
  return failures;
}

void check_list(const nlohmann::json& names, const RandAugmentConfig& config, std::vector<std::string>& failures) {
  const auto ours = RandAugment(config).operations();
  std::vector<AugmentOp> theirs;
  for (const auto& name : names) theirs.push_back(named(name.get<std::string>()).op);
  if (!std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end()))
    failures.push_back("another list of operations");
}

nlohmann::json json_of(const std::filesystem::path& path) { return parse_strict_json(read_file(path), path.string()); }

}  // namespace

std::vector<Results> run_randaugment(const Fixture& f) {
  const Named op = named(f.config().at("op").get<std::string>());
  RandAugmentConfig config;
  config.dialect = f.op() == "randaugment"              ? Dialect::torchvision
                   : f.op() == "big_vision_randaugment" ? Dialect::big_vision
                                                        : Dialect::timm;
  config.increasing = op.increasing;
  config.repaired = op.repaired;
  const nlohmann::json& fill = f.config().at("fill");
  config.fill =
      fill.is_array() ? fill.get<std::vector<std::int64_t>>() : std::vector<std::int64_t>(3, fill.get<std::int64_t>());
  config.interpolation = ResizeMethod::bicubic;  // each drawn operation has its own
  const RandAugment augment(config);
  OpScratch scratch;
  Results results{"as drawn"};
  const Image image = image_of(f, "in/image");
  const nlohmann::json& arguments = f.config().at("arguments");
  for (const std::string& key : f.names("out/")) {
    if (key == "flat" || key == "image") {  // torchvision, operations without an argument
      Image out = image_of(f, "in/" + key);
      augment.run({op.op}, out, scratch);
      add(results, "out/" + key, out);
      continue;
    }
    DrawnOp drawn{op.op};
    const std::string label = key.substr(0, key.find("_bi"));
    if (!arguments.at(label).is_null()) drawn.argument = arguments.at(label).get<double>();
    check_argument(f, augment, op.op, label, drawn.argument, image);
    if (key.ends_with("_bilinear")) drawn.interpolation = ResizeMethod::bilinear;
    if (key.ends_with("_bicubic")) drawn.interpolation = ResizeMethod::bicubic;
    if (op.op == AugmentOp::cutout) {
      drawn.row = f.config().at("centre").at(0).get<std::int64_t>();
      drawn.column = f.config().at("centre").at(1).get<std::int64_t>();
    }
    Image out = image;
    augment.run(drawn, out, scratch);
    add(results, "out/" + key, out);
  }
  return {results};
}

std::vector<std::string> check_big_vision_randaugment(const std::filesystem::path& path) {
  const nlohmann::json file = json_of(path);
  RandAugmentConfig config;
  config.dialect = Dialect::big_vision;
  std::vector<std::string> failures = check_arguments(file, config);
  check_list(file.at("operations"), config, failures);
  config.repaired = true;
  for (const auto& [level, threshold] : file.at("solarize_threshold_before_wrap").items()) {
    const double ours = RandAugment(config).argument(AugmentOp::solarize, std::stod(level), false, 32, 28);
    if (ours != std::min(256.0, threshold.get<double>())) failures.push_back(concat("repaired solarize at ", level));
  }
  return failures;
}

std::vector<std::string> check_timm_randaugment(const std::filesystem::path& path) {
  const nlohmann::json file = json_of(path);
  RandAugmentConfig config;
  config.dialect = Dialect::timm;
  config.interpolation = ResizeMethod::random;
  std::vector<std::string> failures = check_arguments(file, config);
  check_list(file.at("inc0"), config, failures);
  config.increasing = true;
  check_list(file.at("inc1"), config, failures);
  return failures;
}

}  // namespace normlab::reference
