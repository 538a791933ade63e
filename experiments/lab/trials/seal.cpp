#include "experiments/lab/trials/seal.h"

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/sha256.h"

namespace normlab {

FileSeal seal_of(std::string_view bytes) { return {bytes.size(), sha256_hex(bytes)}; }

FileSeal seal_of_file(const std::filesystem::path& path) {
  FileSeal seal;
  Sha256 hash;
  read_pieces(path, [&](std::string_view piece) {
    seal.bytes += piece.size();
    hash.update(piece);
  });
  seal.sha256 = hash.hex();
  return seal;
}

void require_seal(const std::filesystem::path& path, const FileSeal& found, const FileSeal& listed) {
  if (found == listed) return;
  const std::string difference =
      found.bytes != listed.bytes ? concat("has ", found.bytes, " bytes, but its result lists ", listed.bytes)
                                  : concat("has the SHA-256 ", found.sha256, ", but its result lists ", listed.sha256);
  throw InputError(concat(path.string(), ": is damaged: ", difference,
                          "; restore it from a copy, or remove the trial's folder and run it again"));
}

}  // namespace normlab
