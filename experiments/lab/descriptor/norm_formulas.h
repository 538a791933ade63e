// Norms that a descriptor gives by a formula: at a site, or by name in "norms".
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/lab/descriptor/json_tree.h"
#include "nn/model/model_config.h"
#include "nn/model/norm_formula.h"

namespace normlab {

class FieldReader;
struct WriteOptions;

/// A descriptor's "norms".
class NamedFormulas {
 public:
  /// Reads `rows`, the value of "norms" or null, unless it is what was read last. Whether it is not.
  bool read(const JsonNode* rows, FieldReader& in);
  /// Sets `out` to the norm of that name; false if there is none.
  bool find(std::string_view name, ModelKind model, NormSpec& out) const;
  std::vector<std::string_view> names() const;
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

/// {"formula", "parameters", "eps"}, of a name also "about".
void read_formula(FieldReader& in, const JsonNode& node, bool has_name, NormSpec& out);
/// Changes initial values, {"NAME": number}, and "eps" of a norm that is given by a formula.
void change_formula(FieldReader& in, const JsonNode& node, NormSpec& out);
JsonNode written_formula(const NormSpec& spec, WriteOptions options);
JsonNode formula_schema(bool has_name);

}  // namespace normlab
