// All access to libarchive. It is loaded on first use: with its dependencies it would cost every command a millisecond
// and 40 MB of address space.
#pragma once

#include <archive.h>
#include <archive_entry.h>

namespace normlab {

/// Without the prefix "archive_".
// clang-format off
#define NORMLAB_LIBARCHIVE_FUNCTIONS(F) \
  F(entry_filetype) F(entry_free) F(entry_hardlink) F(entry_new) F(entry_pathname) F(entry_set_filetype) \
  F(entry_set_mtime) F(entry_set_pathname) F(entry_set_perm) F(entry_set_size) F(entry_size) F(entry_size_is_set) \
  F(entry_sparse_count) F(errno) F(error_string) F(filter_bytes) F(filter_code) F(read_data_block) \
  F(read_data_skip) F(read_free) F(read_header_position) F(read_new) F(read_next_header) F(read_open_fd) \
  F(read_open_filename) F(read_open_memory) F(read_support_filter_gzip) F(read_support_format_raw) \
  F(read_support_format_tar) F(read_support_format_zip_seekable) F(write_close) F(write_data) \
  F(write_finish_entry) F(write_free) F(write_header) F(write_new) F(write_open2) F(write_open_filename) \
  F(write_set_bytes_in_last_block) F(write_set_bytes_per_block) F(write_set_format_option) \
  F(write_set_format_ustar) F(write_set_format_zip)
// clang-format on

struct LibArchive {
#define NORMLAB_MEMBER(name) decltype(&::archive_##name) archive_##name = nullptr;
  NORMLAB_LIBARCHIVE_FUNCTIONS(NORMLAB_MEMBER)
#undef NORMLAB_MEMBER
};

/// EnvironmentError if the library is missing.
const LibArchive& la();

}  // namespace normlab
