#include "experiments/lab/data/libarchive.h"

#include "core/error.h"
#include "core/library.h"

namespace normlab {
namespace {

LibArchive open() {
  constexpr int kAbi = 13;  // for all versions 3.x
  static_assert(ARCHIVE_VERSION_NUMBER / 1'000'000 == 3);
  const Library library("libarchive", concat("libarchive.so.", kAbi), "install it: apt-get install libarchive-dev");
  LibArchive functions;
#define NORMLAB_FIND(name) library.find("archive_" #name, functions.archive_##name);
  NORMLAB_LIBARCHIVE_FUNCTIONS(NORMLAB_FIND)
#undef NORMLAB_FIND
  return functions;
}

}  // namespace

const LibArchive& la() {
  static const LibArchive instance = open();
  return instance;
}

}  // namespace normlab
