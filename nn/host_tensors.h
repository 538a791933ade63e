// A network's values apart from it, to be rewritten before another network takes them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nn/parameters.h"

namespace normlab {

/// Values of a network apart from any ParameterSet, by name: parameters and running statistics.
struct HostValues {
  Shape shape;
  std::vector<double> values;
};
using HostTensors = std::map<std::string, HostValues>;

/// Copies of everything in `parameters`, which must be allocated.
HostTensors host_tensors(const ParameterSet& parameters);
/// Fills all of `parameters`. InputError as require_match().
void assign(ParameterSet& parameters, const HostTensors& tensors);
/// That `tensors` are the parameters and buffers that `set` declares, no more and no fewer; it need not be allocated.
/// InputError with the name of the first that is missing, of another shape or unknown.
void require_match(const ParameterSet& set, const HostTensors& tensors);
/// Number of values in all tensors.
std::int64_t count_values(const HostTensors& tensors);

}  // namespace normlab
