#include "experiments/descriptor/paper.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "experiments/base/suggest.h"
#include "experiments/descriptor/fields.h"

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

class PaperReader {
 public:
  explicit PaperReader(Problems& problems) : problems_(problems) {}

  PaperConfig read(const JsonNode& node, const JsonPath& path) {
    PaperConfig out;
    if (!check_keys(node, path, {"source", "deviations"}, {"source"})) return out;
    out.source = text(node, path, "source");
    const JsonMember* list = node.find("deviations");
    if (list == nullptr) return out;
    const JsonPath here{&path, list->key, &list->value.at};
    if (list->value.kind != JsonKind::array) {
      report(list->value.at, here, "expected a list of objects, got " + describe(list->value));
      return out;
    }
    for (std::size_t i = 0; i < list->value.items.size(); ++i) {
      const JsonNode& item = list->value.items[i];
      const std::string index = std::to_string(i);
      deviation(item, JsonPath{&here, index, &item.at}, out.deviations);
    }
    return out;
  }

 private:
  void report(const Position& at, const JsonPath& path, const std::string& what) {
    problems_.add(at, path.pointer(), what);
  }

  bool check_keys(const JsonNode& node, const JsonPath& path, const std::vector<std::string_view>& keys,
                  const std::vector<std::string_view>& needed) {
    if (!node.is_object()) {
      report(node.at, path, "expected an object, got " + describe(node));
      return false;
    }
    for (const JsonMember& member : node.members)
      if (std::find(keys.begin(), keys.end(), member.key) == keys.end())
        report(member.key_at, JsonPath{&path, member.key, &member.key_at}, unknown_key(member.key, keys));
    bool complete = true;
    for (const std::string_view key : needed) {
      if (node.find(key) != nullptr) continue;
      report(node.at, path, concat("give its \"", key, "\""));
      complete = false;
    }
    return complete;
  }

  std::string text(const JsonNode& node, const JsonPath& path, std::string_view key) {
    const JsonMember& member = *node.find(key);
    if (member.value.is_string() && !member.value.text.empty()) return member.value.text;
    report(member.value.at, JsonPath{&path, member.key, &member.value.at},
           "expected a text, got " + describe(member.value));
    return {};
  }

  void deviation(const JsonNode& node, const JsonPath& path, std::vector<Deviation>& out) {
    const std::vector<std::string_view> keys{"key", "paper", "here", "why"};
    if (!check_keys(node, path, keys, keys)) return;
    const Deviation d{text(node, path, "key"), value_text(node.find("paper")->value),
                      value_text(node.find("here")->value), text(node, path, "why"),
                      concat(to_string(node.at), ": ", path.pointer())};
    const JsonMember& key = *node.find("key");
    const JsonPath key_path{&path, key.key, &key.value.at};
    if (!d.key.empty() && !is_setting(d.key))
      report(key.value.at, key_path, concat("there is no setting ", d.key, "; `normlab schema --keys` lists them"));
    else if (!seen_.insert(d.key).second)
      report(key.value.at, key_path, d.key + " is listed twice");
    if (d.paper == d.here) report(node.at, path, "what is the same here and there is no deviation");
    out.push_back(d);
  }

  Problems& problems_;
  std::set<std::string> seen_;
};

}  // namespace

PaperConfig read_paper(const JsonNode& node, const JsonPath& path, Problems& problems) {
  return PaperReader(problems).read(node, path);
}

bool is_setting(std::string_view path) { return has_setting<TrialConfig>(path); }

}  // namespace normlab
