// NumPy's file of one array, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html: magic, version, a
// Python dict as header, the data. The reader believes nothing in the file; equal tensors give equal bytes.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "experiments/weights/tensor_map.h"

namespace normlab {

/// The array in a file, under the file's name without its ending. Versions 1.0 to 3.0; descr <f4 <f2 <f8 <i4 <i8 |u1
/// |b1, and |V2 as bfloat16, which is how JAX saves it; an array in Fortran order is put into row-major order.
/// EnvironmentError where the file cannot be read; InputError with file and byte offset for any other descr (pickled
/// objects, big-endian numbers), a header beyond the strict grammar, a length that is not the one of header and shape.
HostTensor read_npy(const std::filesystem::path& path);

/// The same for bytes at hand, kept alive by `owner`; `where` begins the errors: a file, or file and member.
HostTensor parse_npy(std::string name, const std::string& where, std::span<const std::byte> bytes,
                     std::shared_ptr<const void> owner);

/// Version 1.0, data at a multiple of 64 bytes. InputError for a dtype that is not in the list above, data that do not
/// fit the shape, or a shape whose text is beyond 64 KiB.
std::string write_npy_bytes(const TensorView& tensor);

/// Writes it atomically; the tensor's name is not in the file. EnvironmentError where that fails.
void write_npy(const std::filesystem::path& path, const TensorView& tensor);

}  // namespace normlab
