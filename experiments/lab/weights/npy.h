// NumPy's file of one array, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html: magic, version, a
// Python dict as header, data. The reader checks everything in the file. Equal tensors give equal bytes.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

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

/// write_file_or_stream() (experiments/lab/base/files.h), without the tensor's name.
void write_npy(const std::filesystem::path& path, const TensorView& tensor);

}  // namespace normlab
