// The numeric fixtures: one safetensors file a case, whose metadata hold `op`, `config` and a tolerance for each tensor
// to be compared. What a case computes here is handed back by name and held against the file.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "experiments/lab/base/safetensors.h"

namespace normlab::reference {

/// A case: `in/X` inputs, `param/P` parameters, `const/C` what has no gradient, `out/Y`, `dout/Y`, `grad/N` as
/// expected.
class Fixture {
 public:
  /// `name` is the path below the directory without its ending: "models/dpn". InputError where the metadata are not
  /// those of a case.
  Fixture(std::string name, SafetensorsFile file);

  const std::string& name() const { return name_; }
  const std::string& op() const { return op_; }
  const nlohmann::json& config() const { return config_; }
  /// Largest absolute difference allowed, for each tensor to be compared; never empty.
  const std::map<std::string, double>& atol() const { return atol_; }

  bool has(const std::string& tensor) const { return file_.find(tensor) != nullptr; }
  Shape shape(const std::string& tensor) const;
  /// Names that begin with `prefix`, without it.
  std::vector<std::string> names(const std::string& prefix) const;
  /// Any of F32, I32, I64, U8 as double.
  std::vector<double> numbers(const std::string& tensor) const;

  /// Copies in memory of `arena`: f32; labels as i32; a mask of nothing but 0 and 1 as u8.
  Tensor floats(Arena& arena, const std::string& tensor) const;
  Tensor labels(Arena& arena, const std::string& tensor) const;
  Tensor mask(Arena& arena, const std::string& tensor) const;

 private:
  template <class T>
  Tensor copy(Arena& arena, const std::string& tensor) const;
  std::string name_, op_;
  SafetensorsFile file_;
  nlohmann::json config_;
  std::map<std::string, double> atol_;
};

/// What was computed, under the names of the file. `how` tells several ways to the same values apart.
struct Results {
  std::string how;
  struct Values {
    Shape shape;
    std::vector<double> numbers;
  };
  std::map<std::string, Values> tensors{};

  void add(const std::string& name, const Tensor& value);  // f32 or f64
  void add(const std::string& name, const Shape& shape, std::vector<double> numbers);
  /// The gradient of a leaf; zero where nothing depended on it.
  void add_gradient(const std::string& name, const Var& leaf);
};

struct Comparison {
  std::vector<std::string> failures;  // one message a tensor
  std::string tightest;               // tensor with the largest share of its tolerance
  double share = 0.0;                 // that share
};
/// Every tensor named in `atol`: |ours - stored| <= atol for each element. NaN, another shape and a tensor that is not
/// among the results are failures.
Comparison compare(const Fixture& fixture, const Results& results);

/// The cases of each group, in as many ways as they are worth running. InputError where a file asks for something that
/// the group has no rule for.
std::vector<Results> run_norm(const Fixture& fixture);
std::vector<Results> run_op(const Fixture& fixture);
std::vector<Results> run_model(const Fixture& fixture);
std::vector<Results> run_training(const Fixture& fixture);
std::vector<Results> run_optimizer(const Fixture& fixture);
std::vector<Results> run_probe(const Fixture& fixture);
std::vector<Results> run_fusion(const Fixture& fixture);
std::vector<Results> run_randaugment(const Fixture& fixture);
std::vector<Results> run_chain(const Fixture& fixture);
std::vector<Results> run_resize(const Fixture& fixture);
std::vector<Results> run_few_shot(const Fixture& fixture);
std::vector<Results> run_mean_iou(const Fixture& fixture);
std::vector<Results> run_image_text(const Fixture& fixture);
std::vector<Results> run_transfer(const Fixture& fixture);

/// A JSON file that is compared as a whole: one message for each difference.
std::vector<std::string> check_counts(const std::filesystem::path& path);
std::vector<std::string> check_initializers(const std::filesystem::path& path);
std::vector<std::string> check_newer_initializers(const std::filesystem::path& path);
std::vector<std::string> check_big_vision_randaugment(const std::filesystem::path& path);
std::vector<std::string> check_timm_randaugment(const std::filesystem::path& path);
std::vector<std::string> check_schedules(const std::filesystem::path& path);
std::vector<std::string> check_intervals(const std::filesystem::path& path);
std::vector<std::string> check_dunnett(const std::filesystem::path& path);
std::vector<std::string> check_holm(const std::filesystem::path& path);
std::vector<std::string> check_proportions(const std::filesystem::path& path);
std::vector<std::string> check_planning(const std::filesystem::path& path);
std::vector<std::string> check_equivalence(const std::filesystem::path& path);
std::vector<std::string> check_lr_sensitivity(const std::filesystem::path& path);
std::vector<std::string> check_numpy_permutations(const std::filesystem::path& path);

}  // namespace normlab::reference
