// Records of a network's sites that the threads of several shards fill.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/ranks/ranks.h"

namespace normlab {

/// Records by name, in the order of the network: the first shard that adds one has passed all earlier sites.
template <class Record>
class NamedRecords {
 public:
  struct Named {
    std::string name;
    Record record;
  };
  /// The record of that name; at first make().
  template <class Make>
  Record& at(const std::string& name, const Make& make) {
    const std::lock_guard lock(mutex_);
    const auto found = place_of(name);
    return (found != all_.end() ? *found : all_.emplace_back(new Named{name, make()}))->record;
  }
  /// Null if there is none.
  Record* find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = place_of(name);
    return found == all_.end() ? nullptr : &(*found)->record;
  }
  /// Only after all shards.
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  /// Gives all ranks a record of each name, in the order of rank 0, which has images of every step.
  void share_names(Ranks& ranks) {
    const std::size_t count = ranks.shared(all_.size());
    for (std::size_t i = 0; i < count; ++i) {
      const std::string name = ranks.shared_text(i < all_.size() ? all_[i]->name : "");
      if (i < all_.size() && all_[i]->name == name) continue;
      const auto found = place_of(name);
      if (found != all_.end())
        std::swap(*found, all_[i]);
      else
        all_.emplace(all_.begin() + std::ptrdiff_t(i), new Named{name, {}});
    }
  }

 private:
  auto place_of(const std::string& name) {
    return std::find_if(all_.begin(), all_.end(), [&](const auto& named) { return named->name == name; });
  }
  std::mutex mutex_;
  std::vector<std::unique_ptr<Named>> all_;
};

}  // namespace normlab
