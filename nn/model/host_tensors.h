// A network's values outside of it, to be changed before another network takes them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nn/model/parameters.h"

namespace normlab {

/// Values of a network by name, independent of any ParameterSet: parameters and running statistics.
struct HostValues {
  Shape shape;
  std::vector<double> values;
};
using HostTensors = std::map<std::string, HostValues>;

/// Copies everything in `parameters`, which must be allocated.
HostTensors host_tensors(const ParameterSet& parameters);
/// Fills all of `parameters`. Throws InputError like require_match().
void assign(ParameterSet& parameters, const HostTensors& tensors);
/// Checks that `tensors` are exactly the parameters and buffers that `set` declares; `set` need not be allocated.
/// Throws InputError with the name of the first that is missing, has another shape or is unknown.
void require_match(const ParameterSet& set, const HostTensors& tensors);

}  // namespace normlab
