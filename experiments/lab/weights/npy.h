// NumPy's file of one array, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html: magic, version, a
// Python dict as header, data. The reader checks everything in the file. Equal tensors give equal bytes. And
// its archive of arrays: a zip of .npy files. A tensor's name is its member's name without that extension.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/lab/weights/tensor_map.h"

namespace normlab {

/// The array in a file, named after the file without its extension. Versions 1.0 to 3.0; descr <f4 <f2 <f8 <i4 <i8
/// |u1 |b1, and |V2 as bfloat16, as JAX saves it. An array in Fortran order is converted to row-major order.
/// EnvironmentError if the file cannot be read. InputError with file and byte offset for any other descr (pickled
/// objects, big-endian numbers), for a header outside the strict grammar, and for a length that does not match
/// header and shape.
HostTensor read_npy(const std::filesystem::path& path);

/// The same for bytes in memory, kept alive by `owner`. `where` is the prefix of error messages: a file, or
/// file and member.
HostTensor parse_npy(std::string name, const std::string& where, std::span<const std::byte> bytes,
                     std::shared_ptr<const void> owner);

/// Version 1.0, with the data aligned to 64 bytes. InputError for a dtype that is not listed above, for data that do
/// not fit the shape, or for a shape whose text exceeds 64 KiB.
std::string write_npy_bytes(const TensorView& tensor);

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
