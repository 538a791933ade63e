// Records of a network's sites that the threads of several shards fill.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/group.h"

namespace normlab {

/// What is measured of each image of a step, a row of numbers each; NaN until it is measured.
class ImageRows {
 public:
  ImageRows(std::int64_t images = 0, std::int64_t width = 0)
      : width_(width), values_(static_cast<std::size_t>(images * width), std::nan("")) {}
  std::int64_t width() const { return width_; }
  std::int64_t images() const { return width_ > 0 ? std::ssize(values_) / width_ : 0; }
  /// The row of an image, which those of the next ones follow.
  double* row(std::int64_t image) { return values_.data() + image * width_; }
  const double* row(std::int64_t image) const { return values_.data() + image * width_; }
  /// Takes over the rows that other processes have measured.
  void gather(Group& group) {
    const std::vector<double> here = values_;
    for (int from = 0; from < group.size(); ++from) {
      width_ = std::max(width_, group.shared(width_, from));
      std::vector<double> there = here;
      group.share(there, from);
      values_.resize(std::max(values_.size(), there.size()), std::nan(""));
      for (std::size_t i = 0; i < there.size(); ++i)
        if (std::isnan(values_[i])) values_[i] = there[i];
    }
  }

 private:
  std::int64_t width_;
  std::vector<double> values_;
};

/// Records by name, in the order of the network: the first shard that adds one has passed all earlier sites.
/// Record::rows() lists its ImageRows.
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
  /// After the shards here: gives all processes all records, in the order of process 0, which has images of every step.
  void gather(Group& group) {
    const std::size_t count = group.shared(all_.size());
    for (std::size_t i = 0; i < count; ++i) {
      const std::string name = group.shared_text(i < all_.size() ? all_[i]->name : "");
      if (const auto found = place_of(name); found != all_.end())
        std::swap(*found, all_[i]);
      else
        all_.emplace(all_.begin() + std::ptrdiff_t(i), new Named{name, {}});
      for (ImageRows* rows : all_[i]->record.rows()) rows->gather(group);
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
