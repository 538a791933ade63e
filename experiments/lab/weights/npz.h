// NumPy's archive of arrays: a zip of .npy files. A tensor's name is its member's name without that extension.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "experiments/lab/weights/tensor_map.h"

namespace normlab {

/// All arrays of an .npz, stored or deflated, in file order; read_npy() lists the supported arrays. InputError with
/// file, member and byte offset for a file that is no zip or is truncated, a wrong checksum, a member that is no .npy,
/// a duplicate name, a name with "..", an empty part or a backslash beside slashes, no arrays, and members that unpack
/// to more than 100 times the file size and more than 256 MiB. EnvironmentError if the file cannot be opened.
Tensors read_npz(const std::filesystem::path& path);

/// The same for bytes in memory; `file` names them in errors.
Tensors parse_npz(std::span<const std::byte> bytes, const std::string& file);

/// An .npz as written by NumPy's savez: stored, in the given order. The date is always 1980, so equal tensors give
/// equal bytes. InputError if read_npz() would not accept it.
std::string write_npz_bytes(const std::vector<TensorView>& tensors);

/// write_file_or_stream() (experiments/lab/base/files.h). EnvironmentError if that fails; an existing file is then
/// unchanged.
void write_npz(const std::filesystem::path& path, const Tensors& tensors);

}  // namespace normlab
