// A case that is one expression: leaves for everything in the file, one output, its gradients.
#pragma once

#include <algorithm>

#include "autograd/ops.h"
#include "tests/devices.h"
#include "tests/reference/fixture.h"

namespace normlab::reference {

class Graph {
 public:
  /// On the current device.
  explicit Graph(const Fixture& fixture) : fixture_(fixture), tape_(current_device().backend, arena_) {
    for (const std::string prefix : {"in/", "param/"})
      for (const std::string& name : fixture.names(prefix))
        leaves_[name] = tape_.input(fixture.floats(arena_, prefix + name), true);
  }

  Arena& arena() { return arena_; }
  /// The input or parameter of that name; InputError where the file has none.
  Var operator[](const std::string& name) const {
    const Var leaf = find(name);
    if (!leaf) throw InputError(concat(fixture_.name(), ": there is no input or parameter ", name));
    return leaf;
  }
  /// The same, or Var().
  Var find(const std::string& name) const {
    const auto found = leaves_.find(name);
    return found == leaves_.end() ? Var() : found->second;
  }
  Tensor mask(const std::string& name) { return fixture_.mask(arena_, "const/" + name); }
  Tensor labels(const std::string& name) { return fixture_.labels(arena_, "const/" + name); }
  Tensor constant(const std::string& name) { return fixture_.floats(arena_, "const/" + name); }

  /// `y` as out/NAME, and all gradients, from dout/NAME on.
  Results finish(const Var& y, const std::string& name = "y") {
    Results results{"one tape"};
    results.add("out/" + name, y.value());
    tape_.backward(y, fixture_.floats(arena_, "dout/" + name));
    for (const auto& [leaf, var] : leaves_) results.add_gradient("grad/" + leaf, var);
    return results;
  }
  /// Their mean as out/loss, from dout/loss on; over those that count, where that is said.
  Results finish_mean(const Var& losses, const std::vector<bool>& counts = {}) {
    const auto all = losses.shape().size();
    const double number = counts.empty() ? double(all) : double(std::count(counts.begin(), counts.end(), true));
    const double upstream = fixture_.numbers("dout/loss").at(0);
    current_device().backend.synchronize();
    Tensor seed = tape_.empty_like(losses.value());
    double sum = 0.0;
    for (std::int64_t i = 0; i < all; ++i) {
      seed.data<float>()[i] = static_cast<float>(upstream / number);
      sum += double(losses.value().data<float>()[i]);
    }
    Results results{"one tape"};
    results.add("out/loss", Shape(), {sum / number});
    tape_.backward(losses, seed);
    for (const auto& [leaf, var] : leaves_) results.add_gradient("grad/" + leaf, var);
    return results;
  }

 private:
  const Fixture& fixture_;
  Arena arena_{current_device().memory()};
  Tape tape_;
  std::map<std::string, Var> leaves_;
};

}  // namespace normlab::reference
