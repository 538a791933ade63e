// What the readers of descriptor blocks share that describe the experiment and no trial ("paper", "claim").
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/descriptor/problems.h"

namespace normlab {

class BlockReader {
 public:
  explicit BlockReader(Problems& problems) : problems_(problems) {}

 protected:
  /// False, with a problem, unless `node` is an object with all `needed` keys. Other keys than `keys` are problems too.
  bool check_keys(const JsonNode& node, const std::vector<std::string_view>& keys,
                  const std::vector<std::string_view>& needed) {
    if (!node.is_object()) {
      problems_.add(node.at, "expected an object, got " + describe(node));
      return false;
    }
    for (const JsonMember& member : node.members)
      if (std::find(keys.begin(), keys.end(), member.key) == keys.end())
        problems_.add(member.key_at, unknown_key(member.key, keys));
    bool complete = true;
    for (const std::string_view key : needed) {
      if (node.find(key) != nullptr) continue;
      problems_.add(node.at, concat("the key \"", key, "\" is missing"));
      complete = false;
    }
    return complete;
  }

  /// The string at `key`, which is there.
  std::string text(const JsonNode& node, std::string_view key) {
    const JsonMember& member = *node.find(key);
    if (member.value.is_string() && !member.value.text.empty()) return member.value.text;
    problems_.add(member.value.at, "expected a non-empty string, got " + describe(member.value));
    return {};
  }

  Problems& problems_;
};

}  // namespace normlab
