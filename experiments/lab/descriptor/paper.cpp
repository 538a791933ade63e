#include "experiments/lab/descriptor/paper.h"

#include <set>

#include "experiments/lab/descriptor/block_reader.h"
#include "experiments/lab/descriptor/fields.h"

namespace normlab {
namespace {

template <class T>
bool has_setting(std::string_view path) {
  if constexpr (std::is_same_v<T, ModelConfig>) {
    return path == "kind" || path == "variant" || path == "layer_scale" || has_setting<ViTConfig>(path) ||
           has_setting<SwinConfig>(path);
  } else if constexpr (kHasFields<T>) {
    const std::size_t dot = path.find('.');
    bool found = false;
    for_each_field<T>([&](const auto& field) {
      using Member = typename std::remove_cvref_t<decltype(field)>::Member;
      if (field.key != path.substr(0, dot)) return;
      found = dot == path.npos || has_setting<Member>(path.substr(dot + 1));
    });
    return found;
  }
  return false;
}

class PaperReader : BlockReader {
 public:
  using BlockReader::BlockReader;

  PaperConfig read(const JsonNode& node) {
    PaperConfig out;
    if (!check_keys(node, {"source", "deviations"}, {"source"})) return out;
    out.source = text(node, "source");
    const JsonMember* list = node.find("deviations");
    if (list == nullptr) return out;
    if (!list->value.is_array())
      problems_.add(list->value.at, "expected a list of objects, got " + describe(list->value));
    for (const JsonNode& item : list->value.items) deviation(item, out.deviations);
    return out;
  }

 private:
  void deviation(const JsonNode& node, std::vector<Deviation>& out) {
    const std::vector<std::string_view> keys{"key", "paper", "here", "why"};
    if (!check_keys(node, keys, keys)) return;
    const Deviation d{text(node, "key"), value_text(node.find("paper")->value), value_text(node.find("here")->value),
                      text(node, "why"), concat(to_string(node.at), ": ", node.at.pointer())};
    const JsonMember& key = *node.find("key");
    if (!d.key.empty() && !is_setting(d.key))
      problems_.add(key.value.at, concat("there is no setting ", d.key, "; `normlab check --keys` lists them"));
    else if (!seen_.insert(d.key).second)
      problems_.add(key.value.at, d.key + " is listed twice");
    if (d.paper == d.here)
      problems_.add(node.at, "\"paper\" and \"here\" are equal, so this is no deviation; remove it");
    out.push_back(d);
  }

  std::set<std::string> seen_;
};

}  // namespace

PaperConfig read_paper(const JsonNode& node, Problems& problems) { return PaperReader(problems).read(node); }

bool is_setting(std::string_view path) { return has_setting<TrialConfig>(path); }

}  // namespace normlab
