// Writes the kernels of the tests' formulas as C++ for the emulation: `formula_units UNIT`, one of kUnits, or of the
// long tests' kLongUnits after them.
#include <cstdlib>
#include <iostream>
#include <set>

#include "tests/cuda_emulation/formulas.h"

int main(int count, char** words) {
  using namespace normlab;
  using namespace normlab::formula;
  constexpr std::size_t kUnits = 2, kLongUnits = 8;
  const std::size_t unit = count == 2 ? std::strtoul(words[1], nullptr, 10) : kUnits + kLongUnits;
  if (unit >= kUnits + kLongUnits) return 2;
  const bool more = unit >= kUnits;
  std::vector<TestFormula> all = test_formulas(more);
  for (const std::vector<TestFormula>& others : {network_formulas(), edge_formulas(), elementwise_formulas()})
    if (!more) all.insert(all.end(), others.begin(), others.end());
  const std::size_t first = more ? unit - kUnits : unit, step = more ? kLongUnits : kUnits;
  std::set<std::uint64_t> written;
  std::cout << "#include \"cuda/formula_kernels.h\"\n#include \"cuda/kernel.cuh\"\n";
  for (std::size_t i = first; i < all.size(); i += step) {
    const TestFormula& f = all[i];
    const Programs programs(f.tree(), f.site, f.parameters);
    for (const bool backward : {false, true}) {
      const CudaSource source = cuda_source(programs, backward, f.dtype, f.vector());
      const std::uint64_t hash = text_hash(source.text);
      if (!written.insert(hash).second) continue;
      std::cout << "namespace normlab::cuda_emulated::formula_" << hash << " {\n"
                << source.text << "static const bool known = (emulated_formulas()[" << hash << "u] = {rows, "
                << (source.finish_blocks > 0 ? "finish" : "nullptr") << "}, true);\n}\n";
    }
  }
}
