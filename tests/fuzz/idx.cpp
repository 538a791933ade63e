// Any bytes as an IDX file: its header is taken or refused with an InputError, and what is taken fits the file.
#include <cstdio>
#include <cstdlib>

#include "core/error.h"
#include "experiments/data/idx.h"

using namespace normlab;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const IdxHeader header = parse_idx_header({data, size}, "fuzz");
    std::size_t values = 1;
    for (const std::int64_t extent : header.dimensions) values *= static_cast<std::size_t>(extent);
    if (header.data_offset < 0 || static_cast<std::size_t>(header.data_offset) + values != size) {
      std::fprintf(stderr, "%zu values from byte %lld on do not fill %zu bytes\n", values,
                   static_cast<long long>(header.data_offset), size);
      std::abort();
    }
  } catch (const InputError&) {
  }
  return 0;
}
