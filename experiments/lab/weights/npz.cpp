#include "experiments/lab/weights/npz.h"

#include <set>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/data/archive.h"
#include "experiments/lab/weights/npy.h"

namespace normlab {
namespace {

constexpr std::string_view kEnding = ".npy";

/// What is wrong with a member's name; empty if it is valid. Names become tensor names and, in other programs, paths.
std::string wrong_name(std::string_view name) {
  if (!name.ends_with(kEnding)) return "is not an .npy array; an .npz file holds only those";
  name.remove_suffix(kEnding.size());
  for (const char c : name)
    if (c < ' ' || c > '~' || c == '\\') return "has a name with a backslash or characters outside printable ASCII";
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return "has a name with an empty part, \".\" or \"..\" in it";
    begin = end + 1;
  }
  return "";
}

/// Collects the members of `file`, which `read` passes one by one.
template <class Read>
Tensors collect(const std::string& file, const Read& read) {
  Tensors tensors(file);
  std::set<std::string> names;
  read([&](ArchiveMember member) {
    const std::string where = concat(file, ": member ", in_quotes(member.name), " (from byte ", member.offset, ')');
    if (const std::string wrong = wrong_name(member.name); !wrong.empty()) throw InputError(concat(where, ' ', wrong));
    if (!names.insert(member.name).second) throw InputError(concat(where, " occurs twice"));
    const auto content = std::make_shared<const std::vector<std::uint8_t>>(std::move(member.content));
    tensors.add(parse_npy(member.name.substr(0, member.name.size() - kEnding.size()), where,
                          std::as_bytes(std::span(*content)), content));
  });
  if (tensors.size() == 0) throw InputError(concat(file, ": holds no arrays"));
  return tensors;
}

}  // namespace

Tensors read_npz(const std::filesystem::path& path) {
  return collect(path.string(), [&](const auto& visit) { read_zip(path, visit); });
}

Tensors parse_npz(std::span<const std::byte> bytes, const std::string& file) {
  return collect(file, [&](const auto& visit) { read_zip(bytes, file, visit); });
}

std::string write_npz_bytes(const std::vector<TensorView>& tensors) {
  if (tensors.empty()) throw InputError("an .npz file without arrays cannot be written, because no reader accepts it");
  ZipWriter zip;
  std::set<std::string> names;
  for (const TensorView& tensor : tensors) {
    const std::string name = concat(tensor.name, kEnding);
    if (const std::string wrong = wrong_name(name); !wrong.empty())
      throw InputError(concat("tensor ", in_quotes(tensor.name), " cannot be written as .npz: ", wrong));
    if (!names.insert(name).second) throw InputError(concat("tensor ", in_quotes(tensor.name), " occurs twice"));
    zip.add(name, write_npy_bytes(tensor));
  }
  return zip.finish();
}

void write_npz(const std::filesystem::path& path, const Tensors& tensors) {
  write_file_or_stream(path, write_npz_bytes(tensors.views()));
}

}  // namespace normlab
