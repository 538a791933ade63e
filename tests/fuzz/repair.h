// Mutations that go deeper: libFuzzer changes bytes, and lengths and checksums are made right again, so that a reader
// does not stop at the first of them. A file stays one that anybody could have written.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace normlab::fuzz {

using Bytes = std::vector<std::uint8_t>;

/// How zlib wraps what it packs.
enum Wrap : int { kRaw = -15, kZlib = 15, kGzip = 31 };
constexpr std::size_t kMostInflated = std::size_t{1} << 20;

/// What `from` unpacks to and how many bytes of it that takes; none where it is damaged or larger than kMostInflated.
struct Inflated {
  Bytes bytes;
  std::size_t taken = 0;
};
inline std::optional<Inflated> inflated(const std::uint8_t* from, std::size_t size, Wrap wrap) {
  z_stream stream{};
  if (inflateInit2(&stream, wrap) != Z_OK) return std::nullopt;
  Inflated out;
  out.bytes.resize(kMostInflated);
  stream.next_in = const_cast<std::uint8_t*>(from);
  stream.avail_in = static_cast<uInt>(size);
  stream.next_out = out.bytes.data();
  stream.avail_out = static_cast<uInt>(out.bytes.size());
  const int status = inflate(&stream, Z_FINISH);
  out.bytes.resize(stream.total_out);
  out.taken = stream.total_in;
  inflateEnd(&stream);
  if (status != Z_STREAM_END) return std::nullopt;
  return out;
}

inline Bytes deflated(const Bytes& from, Wrap wrap) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, wrap, 8, Z_DEFAULT_STRATEGY);
  Bytes out(deflateBound(&stream, static_cast<uLong>(from.size())));
  stream.next_in = const_cast<std::uint8_t*>(from.data());
  stream.avail_in = static_cast<uInt>(from.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline bool is_gzip(const std::uint8_t* data, std::size_t size) {
  return size >= 2 && data[0] == 0x1f && data[1] == 0x8b;
}

inline void mutate(Bytes& bytes, std::size_t max_size) {
  const std::size_t size = bytes.size();
  bytes.resize(std::max(size, max_size));
  bytes.resize(LLVMFuzzerMutate(bytes.data(), size, bytes.size()));
}

/// One mutation: of the bytes, or of what a gzip among them packs, and then what `repair(Bytes&)` does. One in eight
/// stays as it is: what is broken is an input, too.
template <class Repair>
std::size_t mutate_and_repair(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed,
                              const Repair& repair) {
  if (seed % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::optional<Inflated> inner = is_gzip(data, size) ? inflated(data, size, kGzip) : std::nullopt;
  Bytes bytes = inner ? inner->bytes : Bytes(data, data + size);
  mutate(bytes, std::max(max_size, bytes.size()));
  repair(bytes);
  if (inner) bytes = deflated(bytes, kGzip);
  if (bytes.empty() || bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}

/// The checksum of each header of a tar, as far as the sizes in them lead.
inline void repair_tar(Bytes& tar) {
  constexpr std::size_t kBlock = 512, kSize = 124, kCheck = 148, kCheckBytes = 8;
  for (std::size_t at = 0; at + kBlock <= tar.size();) {
    std::uint8_t* header = tar.data() + at;
    if (std::all_of(header, header + kBlock, [](std::uint8_t byte) { return byte == 0; })) return;
    std::fill_n(header + kCheck, kCheckBytes, std::uint8_t{' '});
    unsigned sum = 0;
    for (std::size_t i = 0; i < kBlock; ++i) sum += header[i];
    char digits[kCheckBytes];
    std::snprintf(digits, sizeof digits, "%06o", sum);
    std::copy_n(digits, 7, header + kCheck);
    std::size_t bytes = 0;
    for (std::size_t i = kSize; i < kSize + 11 && header[i] >= '0' && header[i] <= '7'; ++i)
      bytes = bytes * 8 + (header[i] - '0');
    at += kBlock + (bytes + kBlock - 1) / kBlock * kBlock;
  }
}

inline std::uint32_t big_endian(const std::uint8_t* at) {
  return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 | at[3];
}
inline void put_big_endian(std::uint32_t value, std::uint8_t* at) {
  for (int byte = 0; byte < 4; ++byte) at[byte] = static_cast<std::uint8_t>(value >> (24 - 8 * byte));
}
inline void put_little_endian(std::uint32_t value, std::size_t bytes, std::uint8_t* at) {
  for (std::size_t byte = 0; byte < bytes; ++byte) at[byte] = static_cast<std::uint8_t>(value >> (8 * byte));
}

/// The checksum of each chunk of a PNG; a length that leads beyond the end becomes what is left.
inline void repair_png(Bytes& png) {
  constexpr std::size_t kSignature = 8, kFrame = 12;  // length, type and checksum
  for (std::size_t at = kSignature; at + kFrame <= png.size();) {
    std::uint8_t* chunk = png.data() + at;
    const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(big_endian(chunk), png.size() - at - kFrame));
    put_big_endian(length, chunk);
    put_big_endian(static_cast<std::uint32_t>(crc32(0, chunk + 4, length + 4)), chunk + 8 + length);
    at += kFrame + length;
  }
}

/// Changes what the first IDAT chunk of a PNG packs and packs it again, in one chunk of its own. False where there is
/// none that unpacks by itself.
inline bool mutate_png_rows(Bytes& png) {
  constexpr std::size_t kSignature = 8, kFrame = 12;
  for (std::size_t at = kSignature; at + kFrame <= png.size();) {
    const std::size_t length = std::min<std::size_t>(big_endian(png.data() + at), png.size() - at - kFrame);
    const std::uint8_t* type = png.data() + at + 4;
    if (std::equal(type, type + 4, "IDAT")) {
      std::optional<Inflated> rows = inflated(type + 4, length, kZlib);
      if (!rows) return false;
      mutate(rows->bytes, rows->bytes.size() + 64);
      const Bytes packed = deflated(rows->bytes, kZlib);
      Bytes chunk(kFrame + packed.size());
      put_big_endian(static_cast<std::uint32_t>(packed.size()), chunk.data());
      std::copy_n(type, 4, chunk.begin() + 4);
      std::copy(packed.begin(), packed.end(), chunk.begin() + 8);
      const auto begin = png.begin() + static_cast<std::ptrdiff_t>(at);
      png.insert(png.erase(begin, begin + static_cast<std::ptrdiff_t>(kFrame + length)), chunk.begin(), chunk.end());
      return true;
    }
    at += kFrame + length;
  }
  return false;
}

/// Checksums and sizes of a zip's members, and a new directory of those that stand there one after the other.
inline void repair_zip(Bytes& zip) {
  constexpr std::size_t kHeader = 30, kEntry = 46, kEnd = 22;
  constexpr std::uint8_t kMember[] = {'P', 'K', 3, 4}, kDirectory[] = {'P', 'K', 1, 2}, kLast[] = {'P', 'K', 5, 6};
  const auto is_at = [&](const std::uint8_t(&mark)[4], std::size_t at) {
    return at + 4 <= zip.size() && std::equal(mark, mark + 4, zip.begin() + static_cast<std::ptrdiff_t>(at));
  };
  const auto two = [&](std::size_t at) { return std::size_t{zip[at]} | std::size_t{zip[at + 1]} << 8; };
  Bytes directory;
  std::size_t at = 0;
  std::uint32_t members = 0;
  while (is_at(kMember, at) && at + kHeader <= zip.size()) {
    const std::size_t name = two(at + 26), data = at + kHeader + name + two(at + 28);
    if (data > zip.size()) break;
    std::size_t end = data;
    while (end < zip.size() && !is_at(kMember, end) && !is_at(kDirectory, end) && !is_at(kLast, end)) ++end;
    const std::uint8_t* content = zip.data() + data;
    auto bytes = static_cast<std::uint32_t>(end - data);
    std::uint32_t unpacked = bytes;
    auto sum = static_cast<std::uint32_t>(crc32(0, content, bytes));
    if (two(at + 8) == 8) {
      if (const auto inner = inflated(content, bytes, kRaw)) {
        unpacked = static_cast<std::uint32_t>(inner->bytes.size());
        sum = static_cast<std::uint32_t>(crc32(0, inner->bytes.data(), unpacked));
      }
    }
    zip[at + 6] &= 0xf7;  // sizes stand here and not behind the data
    put_little_endian(sum, 4, zip.data() + at + 14);
    put_little_endian(bytes, 4, zip.data() + at + 18);
    put_little_endian(unpacked, 4, zip.data() + at + 22);
    Bytes entry(kEntry);
    std::copy_n(kDirectory, 4, entry.begin());
    entry[4] = 20;  // made by version 2.0 for a file system without modes
    std::copy_n(zip.begin() + static_cast<std::ptrdiff_t>(at) + 4, 24, entry.begin() + 6);  // up to the name's length
    put_little_endian(static_cast<std::uint32_t>(at), 4, entry.data() + 42);
    const auto name_at = zip.begin() + static_cast<std::ptrdiff_t>(at + kHeader);
    entry.insert(entry.end(), name_at, name_at + static_cast<std::ptrdiff_t>(name));
    directory.insert(directory.end(), entry.begin(), entry.end());
    ++members;
    at = end;
  }
  if (members == 0) return;
  Bytes last(kEnd);
  std::copy_n(kLast, 4, last.begin());
  for (const std::size_t count_at : {8u, 10u}) put_little_endian(members, 2, last.data() + count_at);
  put_little_endian(static_cast<std::uint32_t>(directory.size()), 4, last.data() + 12);
  put_little_endian(static_cast<std::uint32_t>(at), 4, last.data() + 16);
  zip.resize(at);
  zip.insert(zip.end(), directory.begin(), directory.end());
  zip.insert(zip.end(), last.begin(), last.end());
}

}  // namespace normlab::fuzz
