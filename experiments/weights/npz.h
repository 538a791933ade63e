// NumPy's archive of arrays: a zip whose members are .npy files. A tensor's name is its member's without that ending.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "experiments/weights/tensor_map.h"

namespace normlab {

/// All arrays of an .npz, stored or deflated, in the order of the file; read_npy says which arrays. InputError with
/// file, member and byte offset: no zip or one cut short, a wrong checksum, a member that is no .npy, a name twice, a
/// name with "..", an empty part or a backslash beside slashes in it, no arrays at all, members that unpack to more
/// than 100 times the file (and more than 256 MiB), which no weights do. EnvironmentError where the file cannot be
/// opened.
Tensors read_npz(const std::filesystem::path& path);

/// The same for bytes at hand; `file` names them in errors.
Tensors parse_npz(std::span<const std::byte> bytes, const std::string& file);

/// An .npz as NumPy's savez makes it: stored, in the given order; the time in it is always 1980, so that equal tensors
/// give equal bytes. InputError where read_npz would not take it back.
std::string write_npz_bytes(const std::vector<TensorView>& tensors);

/// Writes it atomically. EnvironmentError where that fails; an older file is then still there.
void write_npz(const std::filesystem::path& path, const Tensors& tensors);

}  // namespace normlab
