// Folders, files, tars and images that the tests of data make.
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>  // jpeglib.h wants FILE
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <jpeglib.h>

#include "core/error.h"
#include "experiments/lab/data/image_index.h"
#include "experiments/lab/data/png.h"
#include "tests/lab/base/child_process.h"

namespace normlab::test {

/// A new folder, removed at the end of the scope.
class TempFolder {
 public:
  TempFolder() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() / concat("normlab-data-", getpid(), "-", count++);
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& file, const std::string& content) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << content;
}

inline std::string read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

using Members = std::vector<std::pair<std::string, std::string>>;  // name, content

/// A tar with pax records if they are needed, gzipped if the name ends in .gz. A content "-> target" makes a symbolic
/// link, and a name with a slash at its end a folder.
inline void write_tar(const std::filesystem::path& file, const Members& members) {
  archive* writer = archive_write_new();
  archive_write_set_format_pax_restricted(writer);
  if (file.extension() == ".gz") archive_write_add_filter_gzip(writer);
  archive_write_set_bytes_in_last_block(writer, 1);  // only the end marker follows the last member
  REQUIRE(archive_write_open_filename(writer, file.c_str()) == ARCHIVE_OK);
  for (const auto& [name, content] : members) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_perm(entry, 0644);
    const bool link = content.rfind("-> ", 0) == 0, folder = name.back() == '/';
    archive_entry_set_filetype(entry, link ? AE_IFLNK : folder ? AE_IFDIR : AE_IFREG);
    if (link) archive_entry_set_symlink(entry, content.c_str() + 3);
    if (!link && !folder) archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    REQUIRE(archive_write_header(writer, entry) >= ARCHIVE_WARN);  // names outside ASCII give a warning
    if (!link && !folder) archive_write_data(writer, content.data(), content.size());
    archive_entry_free(entry);
  }
  archive_write_close(writer);
  archive_write_free(writer);
}

/// `text` packed by gzip. Several in a row unpack to all their texts.
inline std::string gzip(const std::string& text) {
  std::string packed(text.size() + 1000, '\0');
  std::size_t bytes = 0;
  archive* writer = archive_write_new();
  archive_write_set_format_raw(writer);
  archive_write_add_filter_gzip(writer);
  archive_write_set_bytes_in_last_block(writer, 1);
  REQUIRE(archive_write_open_memory(writer, packed.data(), packed.size(), &bytes) == ARCHIVE_OK);
  archive_entry* entry = archive_entry_new();
  archive_entry_set_filetype(entry, AE_IFREG);
  REQUIRE(archive_write_header(writer, entry) == ARCHIVE_OK);
  archive_write_data(writer, text.data(), text.size());
  archive_entry_free(entry);
  archive_write_close(writer);
  archive_write_free(writer);
  packed.resize(bytes);
  return packed;
}

/// Bytes that unpack to `mebibytes` MiB of zeros, a thousandth of that in length.
inline std::string gzip_of_zeros(int mebibytes) {
  const std::string one = gzip(std::string(std::size_t{1} << 20, '\0'));
  std::string all;
  for (int i = 0; i < mebibytes; ++i) all += one;
  return all;
}

enum class JpegKind { rgb = 3, gray = 1, cmyk = 4 };

/// A JPEG of sloping levels that `seed` shifts, of quality 95 unless `set` changes it.
inline std::string make_jpeg(unsigned height, unsigned width, unsigned seed, JpegKind kind = JpegKind::rgb,
                             const std::function<void(jpeg_compress_struct&)>& set = {}) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  errors.emit_message = [](j_common_ptr, int) {};
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&jpeg, &memory, &bytes);
  const auto channels = static_cast<unsigned>(kind);
  jpeg.image_height = height;
  jpeg.image_width = width;
  jpeg.input_components = static_cast<int>(channels);
  jpeg.in_color_space = kind == JpegKind::rgb ? JCS_RGB : kind == JpegKind::gray ? JCS_GRAYSCALE : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 95, TRUE);
  if (set) set(jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<unsigned char> row(std::size_t{width} * channels);
  for (unsigned y = 0; y < height; ++y) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = static_cast<unsigned char>(seed * 37 + y * 4 + i / channels * 3 + i % channels * 20);
    }
    JSAMPROW pointer = row.data();
    jpeg_write_scanlines(&jpeg, &pointer, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::string text(reinterpret_cast<char*>(memory), bytes);
  std::free(memory);
  return text;
}

/// A PNG of one colour that `seed` sets.
inline std::string make_png(std::int64_t height, std::int64_t width, unsigned seed) {
  Image image;
  image.resize(height, width);
  for (std::uint8_t& value : image.pixels) value = static_cast<std::uint8_t>(seed * 37);
  const std::vector<std::uint8_t> bytes = png_bytes(image);
  return {bytes.begin(), bytes.end()};
}

/// Asks a reader for a slice of the dataset "d".
inline SliceRequest request_for(const std::string& slice, int threads = 1, const std::string& dataset = "d") {
  SliceRequest request;
  request.slice = parse_slice(slice);
  request.dataset = dataset;
  request.threads = threads;
  return request;
}

/// The message of the InputError that `work` throws; empty if it throws none.
template <class Work>
std::string input_error(Work&& work) {
  try {
    work();
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

/// The message of the InputError that `work` throws in a process that may take `mebibytes` MiB more than this one has;
/// "no memory" if it needs more.
template <class Work>
std::string input_error_within(std::size_t mebibytes, Work&& work) {
  TempFolder folder;
  const pid_t child = start_child([&] {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t most = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + (mebibytes << 20);
    const rlimit limit{most, most};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
    std::string said;
    try {
      said = input_error(work);
    } catch (const std::bad_alloc&) {
      said = "no memory";
    }
    write_file(folder / "said", said);
    return 0;
  });
  REQUIRE(wait_for_child(child) == 0);
  return read_file(folder / "said");
}

}  // namespace normlab::test

/// Checks that an error's message contains the text.
#define CHECK_SAYS(message, text)                                                                            \
  do {                                                                                                       \
    const std::string message_(message);                                                                     \
    CHECK_MESSAGE(message_.find(text) != std::string::npos, "got: \"" << message_ << "\", not: " << (text)); \
  } while (false)
