// Norms that a descriptor gives by a formula: at a site, or by name in "norms". And activations.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/lab/descriptor/json_tree.h"
#include "nn/model/model_config.h"
#include "nn/model/norm_formula.h"

namespace normlab {

class FieldReader;
struct WriteOptions;

/// A norm that is given by a formula: at a site, or with "about" in "norms".
struct FormulaKeys {
  std::string formula{};
  std::vector<FormulaParameter> parameters{};
  std::optional<double> eps{};
};
template <std::same_as<FormulaKeys> T>
constexpr auto rows_of(const T*) {
  return Fields{field("formula", &T::formula, "the formula, in place of a kind")
                    .needed("give the \"formula\", such as \"gamma * x / rms(x)\""),
                field("parameters", &T::parameters, "its parameters by name"),
                field("eps", &T::eps, "added under the root in rms, std and norm; 1e-6, in a Swin 1e-5", kPositive)};
}

/// An activation that is given by a formula.
struct ActivationKeys {
  std::string formula{};
};
template <std::same_as<ActivationKeys> T>
constexpr auto rows_of(const T*) {
  return Fields{field("formula", &T::formula, "of x and, with mlp gated, of g")
                    .needed("give the \"formula\", such as \"x * sigmoid(1.702 * x)\"")};
}

/// A descriptor's "norms".
class NamedFormulas {
 public:
  /// Reads `rows`, the value of "norms" or null, unless it is what was read last. Whether it is not.
  bool read(const JsonNode* rows, FieldReader& in);
  /// Sets `out` to the norm of that name; false if there is none.
  bool find(std::string_view name, ModelKind model, NormSpec& out) const;
  std::vector<std::string_view> names() const;
  std::vector<std::string_view> parameter_names() const;
  /// "" if it has none.
  std::string_view name_of(const NormSpec& spec) const;

 private:
  struct Row {
    NormSpec spec;
    bool has_eps;
  };
  std::map<std::string, Row, std::less<>> rows_;
  std::string text_;
};

/// FormulaKeys; of a name also "about".
void read_formula(FieldReader& in, const JsonNode& node, bool has_name, NormSpec& out);
/// Changes initial values, {"NAME": number or formula}, and "eps" of a norm that is given by a formula.
void change_formula(FieldReader& in, const JsonNode& node, NormSpec& out);
JsonNode written_formula(const NormSpec& spec, WriteOptions options);
JsonNode formula_schema(bool has_name);
/// The keys that a norm may have at its site besides its kind.
std::vector<std::string_view> keys_of(const NormSpec& spec);

}  // namespace normlab
