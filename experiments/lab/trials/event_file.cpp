#include "experiments/lab/trials/event_file.h"

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdint>

namespace normlab {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = (table[i] >> 1) ^ ((table[i] & 1) != 0 ? 0x82F63B78U : 0U);
  }
  return table;
}

template <class T>
void put_little_endian(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

// Protocol buffers: a key holds the field's number and its wire type.
enum Wire : std::uint64_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}
void put_key(std::string& out, std::uint64_t number, Wire wire) { put_varint(out, number << 3 | wire); }
void put_bytes(std::string& out, std::uint64_t number, std::string_view value) {
  put_key(out, number, Wire::bytes);
  put_varint(out, value.size());
  out += value;
}

std::string event(double wall_time) {
  std::string out;
  put_key(out, 1, Wire::fixed64);
  put_little_endian(out, std::bit_cast<std::uint64_t>(wall_time));
  return out;
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::uint32_t masked(std::uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8U; }

}  // namespace

std::uint32_t crc32c(std::string_view text) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char c : text) crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

std::string tf_record(std::string_view content) {
  std::string out;
  put_little_endian(out, static_cast<std::uint64_t>(content.size()));
  put_little_endian(out, masked(crc32c(out)));
  out += content;
  put_little_endian(out, masked(crc32c(content)));
  return out;
}

std::string scalar_event(const MetricsLine& line, double wall_time) {
  std::string summary;
  for (const auto& [name, number] : line.values) {
    std::string value;
    put_bytes(value, 1, name);  // field `tag`
    put_key(value, 2, Wire::fixed32);
    put_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(number)));
    put_bytes(summary, 1, value);
  }
  std::string out = event(wall_time);
  put_key(out, 2, Wire::varint);
  put_varint(out, static_cast<std::uint64_t>(line.step));
  put_bytes(out, 5, summary);
  return out;
}

EventFile::EventFile(const std::filesystem::path& folder, const std::vector<MetricsLine>& before)
    : path_(folder / kName) {
  make_folders(folder);
  file_.open(path_, std::ios::binary);
  if (!file_) throw_system_error("create", path_, errno);
  std::string version = event(now());
  put_bytes(version, 3, "brain.Event:2");
  write(tf_record(version));
  for (const MetricsLine& line : before) append(line);
}

void EventFile::append(const MetricsLine& line) { write(tf_record(scalar_event(line, now()))); }

void EventFile::write(const std::string& record) {
  if (!(file_ << record).flush()) throw_system_error("append to", path_, errno);
}

}  // namespace normlab
