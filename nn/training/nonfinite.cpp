#include "nn/training/nonfinite.h"

#include "core/nonfinite.h"

namespace normlab {

std::string NonFiniteWeight::text() const { return concat(tensor, '[', index, "] is ", nonfinite_word(value)); }

std::optional<NonFiniteWeight> first_nonfinite(const ParameterSet& set) {
  for (std::size_t i = 0; i < set.parameters().size(); ++i)
    if (const auto found = first_nonfinite(set.read(static_cast<int>(i))))
      return NonFiniteWeight{set.parameters()[i].name, found->index, found->value};
  for (std::size_t i = 0; i < set.buffers().size(); ++i)
    if (const auto found = first_nonfinite(set.buffer(static_cast<int>(i))))
      return NonFiniteWeight{set.buffers()[i].name, found->index, found->value};
  return std::nullopt;
}

}  // namespace normlab
