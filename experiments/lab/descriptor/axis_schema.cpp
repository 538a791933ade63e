#include <set>
#include <string>

#include "experiments/lab/descriptor/forms.h"
#include "experiments/lab/descriptor/keys.h"

namespace normlab {
namespace {

/// The path of every setting that can be an axis, found in the schemas of the settings.
class AxisPaths {
 public:
  explicit AxisPaths(const JsonNode& root) : root_(root) {
    for (const std::string_view key : kSettingRoots)
      add(std::string(key), key == "model" ? "#/$defs/model" : concat("#/properties/", key));
  }

  /// An object of axes, each with a list of values or a single value.
  JsonNode schema(bool lists) const {
    JsonNode axes = json_object(), patterns = json_object();
    for (const auto& [path, pointer] : pointers_) {
      JsonNode node = object({{"$ref", pointer}});
      if (lists) {
        node = list_of(std::move(node));
        node.find("type")->value = list_of_words({"array", "object"});  // the latter in "tune" only
        node.add("minItems", 1);
        if (const JsonMember* doc = at(pointer).find("description")) node.add("description", doc->value);
      }
      axes.add(path, std::move(node));
    }
    JsonNode name = type("string");
    if (lists) {
      name = list_of(std::move(name));
      name.add("minItems", 1);
    }
    axes.add(std::string(kBenchmarkAxis), std::move(name));
    axes.add(std::string(kLeaveOneOutAxis), lists ? rows_schema<LeaveOneOut>() : type("string"));
    std::string segments;
    for (const std::string& key : keys_) segments += key + "|";
    const std::string_view range = kRangeName;
    segments = concat("(\\.(", segments, range.substr(1, range.size() - 2), "))*");
    const JsonNode values = lists ? object({{"type", "array"}, {"minItems", 1}}) : json_object();
    patterns.add("^model\\.placement\\.blocks" + segments + "$", values);
    const std::string_view of_norms = "norms\\.[^, ]+",
                           of_sites = "model\\.(text\\.)?placement\\.([^, ]+\\.)?\\*\\*\\.[^, ]+";
    for (const std::string_view path : {of_norms, of_sites}) patterns.add(concat("^", path, "$"), values);
    if (lists) {
      std::string roots;
      for (const std::string_view key : kSettingRoots) roots += concat(roots.empty() ? "" : "|", key);
      const std::string path = concat("((", roots, ")", segments, "|", of_norms, "|", of_sites, ")");
      JsonNode joint = list_of(object({{"type", "array"}, {"minItems", 2}}));
      joint.add("minItems", 1);
      patterns.add(concat("^ *", path, "( *, *", path, ")+ *$"), std::move(joint));
      axes.add("seeds", reference("seeds"));
    }
    return object({{"type", "object"},
                   {"properties", std::move(axes)},
                   {"patternProperties", std::move(patterns)},
                   {"additionalProperties", false}});
  }

 private:
  const JsonNode& at(std::string_view pointer) const {
    const JsonNode* node = &root_;
    for (std::size_t end = 1; end < pointer.size();) {
      const std::size_t begin = end + 1;
      end = std::min(pointer.find('/', begin), pointer.size());
      node = &node->find(pointer.substr(begin, end - begin))->value;
    }
    return *node;
  }

  void add(const std::string& path, std::string pointer) {
    pointers_.emplace_back(path, pointer);
    const JsonNode* node = &at(pointer);
    while (true) {
      if (const JsonMember* reference = node->find("$ref"))
        pointer = reference->value.text;
      else if (node->find("then") != nullptr)
        pointer += "/then";
      else
        break;
      node = &at(pointer);
    }
    const JsonMember* members = node->find("properties");
    if (members == nullptr) return;
    for (const JsonMember& member : members->value.members) {
      keys_.insert(member.key);
      add(concat(path, ".", member.key), concat(pointer, "/properties/", member.key));
    }
  }

  const JsonNode& root_;
  std::vector<std::pair<std::string, std::string>> pointers_;  // path -> pointer, in the order of the tables
  std::set<std::string> keys_;
};

}  // namespace

void add_axis_schemas(JsonNode& root) {
  const AxisPaths paths(root);
  JsonNode grid = paths.schema(/*lists=*/true), choice = paths.schema(/*lists=*/false);
  choice.add("minProperties", 1);
  JsonNode& definitions = root.find("$defs")->value;
  definitions.add("grid", std::move(grid));
  definitions.add("choice", std::move(choice));
}

}  // namespace normlab
