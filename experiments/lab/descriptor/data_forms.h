// The forms of data sets, starts and optimisers.
#pragma once

#include "experiments/lab/descriptor/form.h"

namespace normlab {

/// An object of lists, since objects have no order.
template <>
struct Form<ClassGroups> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, ClassGroups& out, Range);
  static JsonNode write(const ClassGroups& groups, WriteOptions options);
  static JsonNode schema(Range);
  static std::string words(Range) { return "object of lists of strings"; }
};

/// A name, or an object.
template <>
struct Form<DatasetConfig> : ObjectForm<DatasetConfig> {
  static void read(FieldReader& in, const JsonNode& node, DatasetConfig& out, Range);
  static JsonNode schema(Range range) {
    return if_type("object", ObjectForm::schema(range), one_of_words(names_of(kKnownDatasets)));
  }
};

template <>
struct Form<StartFrom> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, StartFrom& out, Range);
  static JsonNode schema(Range) {
    return rows_schema<StartFrom>(object(
        {{"row", object({{"type", "object"}, {"minProperties", 1}})}, {"seed", Form<std::uint64_t>::schema({})}}));
  }
  static std::string words(Range) { return "{\"descriptor\", \"row\", \"seed\"}"; }
};

/// null, the name of a file, or an object with either "file" or "from". Canonical texts have an object of ids.
template <>
struct Form<StartConfig> : ObjectForm<StartConfig> {
  using Rows = StartKeys;
  static void read(FieldReader& in, const JsonNode& node, StartConfig& out, Range);
  static JsonNode schema(Range);
};

template <>
struct Form<OptimizerSettings> : ObjectForm<OptimizerSettings> {
  /// The optimiser's name determines the defaults of omitted settings.
  static void read(FieldReader& in, const JsonNode& node, OptimizerSettings& out, Range) {
    const JsonMember* const name = node.is_object() ? node.find("name") : nullptr;
    if (OptimizerName known{}; name != nullptr && name->value.is_string() && find_word(name->value.text, known))
      out = defaults_beside(OptimizerSettings{.name = known});
    in.object(node, out);
  }
};

}  // namespace normlab
