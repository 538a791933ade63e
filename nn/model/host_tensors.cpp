#include "nn/model/host_tensors.h"

#include <algorithm>

#include "core/for_type.h"

namespace normlab {
namespace {

void copy_out(const Tensor& from, HostValues& to) {
  to.shape = from.shape();
  for_param_type("network", from.dtype(), [&](auto type) {
    const auto* values = from.data<typename decltype(type)::type>();
    to.values.assign(values, values + from.size());
  });
}

void copy_in(const HostValues& from, const Tensor& to) {
  for_param_type("network", to.dtype(), [&]<class P>(Type<P>) {
    std::transform(from.values.begin(), from.values.end(), to.data<P>(), [](double v) { return static_cast<P>(v); });
  });
}

}  // namespace

HostTensors host_tensors(const ParameterSet& set) {
  HostTensors tensors;
  int number = 0;
  for (const ParameterInfo& info : set.parameters()) copy_out(set.read(number++), tensors[info.name]);
  number = 0;
  for (const ParameterInfo& info : set.buffers()) copy_out(set.buffer(number++), tensors[info.name]);
  return tensors;
}

void assign(ParameterSet& set, const HostTensors& tensors) {
  require_match(set, tensors);
  int number = 0;
  for (const ParameterInfo& info : set.parameters()) copy_in(tensors.at(info.name), set.value(number++));
  number = 0;
  for (const ParameterInfo& info : set.buffers()) copy_in(tensors.at(info.name), set.buffer(number++));
}

void require_match(const ParameterSet& set, const HostTensors& tensors) {
  for (const auto* list : {&set.parameters(), &set.buffers()})
    for (const ParameterInfo& info : *list) {
      const auto found = tensors.find(info.name);
      if (found == tensors.end()) throw InputError(concat("tensor ", info.name, " of this network is missing"));
      require_shape("network", info.name.c_str(), found->second.shape, info.shape);
      if (static_cast<std::int64_t>(found->second.values.size()) != info.shape.size())
        throw InputError(concat("tensor ", info.name, " has ", found->second.values.size(),
                                " values, but its shape needs ", info.shape.size()));
    }
  if (tensors.size() == set.parameters().size() + set.buffers().size()) return;
  for (const auto& [name, tensor] : tensors)
    if (set.find(name) < 0 && set.find_buffer(name) < 0)
      throw InputError(concat("tensor ", name, " does not belong to this network"));
}

}  // namespace normlab
