// Any text as names of shards: it is refused with an InputError, or stands for names that are all different, not empty
// and below the folder, and each of which stands for itself.
#include "experiments/lab/data/shard_names.h"

#include <set>

#include "core/error.h"
#include "tests/fuzz/target.h"

using namespace normlab;
using namespace normlab::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  std::vector<std::string> names;
  try {
    names = expand_shard_names(text);
  } catch (const InputError&) {
    return 0;
  }
  const std::set<std::string> different(names.begin(), names.end());
  bool sound = different.size() == names.size() && !names.empty() && !different.contains("");
  for (std::size_t i = 0; sound && i < names.size() && i < 100; ++i)
    sound = names[i].front() != '/' && expand_shard_names(names[i]) == std::vector<std::string>{names[i]};
  require(sound, "names that are not different, or do not stand for themselves");
  return 0;
}
