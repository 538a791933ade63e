// All problems of a descriptor, reported together.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "experiments/lab/descriptor/json_tree.h"

namespace normlab {

class Problems {
 public:
  void add(const Position& at, const std::string& what) { add(at, at.pointer(), what); }
  /// The same with another pointer than the position's.
  void add(const Position& at, const std::string& pointer, const std::string& what);
  /// A problem unless there is one below `pointer`, which may be its cause.
  void add_unless(const std::string& pointer, const Position& at, const std::string& what);
  /// A problem unless another trial uses the key.
  void unused(const Position& at, const std::string& what);
  void used(const Position& at);
  /// Without the unused keys of `other`.
  void absorb(const Problems& other) { problems_.insert(other.problems_.begin(), other.problems_.end()); }
  bool empty() const { return problems_.empty() && doubtful_.empty(); }
  /// InputError with one line per problem, in file order: "file:line:column: /json/pointer: what".
  void throw_if_any();
  /// The same, including keys that no trial used.
  void throw_if_any_or_unused();

 private:
  using Key = std::tuple<std::size_t, std::uint32_t, std::uint32_t, std::string>;
  struct Unused {
    bool used = false;
    Position at;
    std::string what;
  };
  struct Doubtful {
    std::string pointer;
    Position at;
    std::string what;
  };
  std::map<Key, std::string> problems_;  // sorted by place, without duplicates
  std::vector<Doubtful> doubtful_;
  std::map<std::tuple<const Source*, std::uint32_t, std::uint32_t>, Unused> unused_;
};

/// "file:line:column", or only the source's name if it has no lines.
std::string to_string(const Position& at);

}  // namespace normlab
