#include "experiments/lab/base/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "core/error.h"
#include "core/visible_text.h"

namespace normlab {
namespace {

struct Dtype {
  std::string_view name;
  std::uint64_t bits;
};
constexpr std::array kDtypes{Dtype{"BOOL", 8},    Dtype{"F4", 4},          Dtype{"F6_E2M3", 6},     Dtype{"F6_E3M2", 6},
                             Dtype{"U8", 8},      Dtype{"I8", 8},          Dtype{"F8_E5M2", 8},     Dtype{"F8_E4M3", 8},
                             Dtype{"F8_E8M0", 8}, Dtype{"F8_E4M3FNUZ", 8}, Dtype{"F8_E5M2FNUZ", 8}, Dtype{"I16", 16},
                             Dtype{"U16", 16},    Dtype{"F16", 16},        Dtype{"BF16", 16},       Dtype{"I32", 32},
                             Dtype{"U32", 32},    Dtype{"F32", 32},        Dtype{"C64", 64},        Dtype{"F64", 64},
                             Dtype{"I64", 64},    Dtype{"U64", 64}};

/// Walks the header in step with the parser's events, to know each token's position.
class TokenCursor {
 public:
  explicit TokenCursor(std::string_view text) : text_(text) {}

  /// Advances to the next token and returns its offset.
  std::size_t next() {
    const std::size_t begin = std::min(text_.find_first_not_of(" \t\r\n,:", end_), text_.size());
    end_ = begin + 1;
    if (begin == text_.size()) return begin;
    if (text_[begin] == '"') {
      while (end_ < text_.size() && text_[end_] != '"') end_ += text_[end_] == '\\' ? 2 : 1;
      ++end_;
    } else if (std::string_view("{}[]").find(text_[begin]) == std::string_view::npos) {
      end_ = std::min(text_.find_first_of(" \t\r\n,:{}[]\"", begin), text_.size());
    }
    return begin;
  }

 private:
  std::string_view text_;
  std::size_t end_ = 0;
};

/// nlohmann's document builder silently keeps the last of two equal keys, so this reads parser events. A callback that
/// finds a broken rule sets `problem` and `at` and stops the parser.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(std::string_view header) : cursor_(header) {}

  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
  std::string problem;
  std::size_t at = 0;  // offset of the last token in the header

  bool start_object(std::size_t) override {
    step();
    if (depth_ == 0) return ++depth_, true;
    if (depth_ != 1) return wrong("an object");
    fields_.clear();
    if (!in_metadata_) {
      entries.emplace_back().name = name_;
      entries.back().at = name_at_;
    }
    return ++depth_, true;
  }
  bool key(std::string& key) override {
    step();
    if (key.find('\0') != key.npos) return fail("a NUL in a key");
    if (depth_ == 1) {
      name_ = key;
      name_at_ = at;
      in_metadata_ = key == kSafetensorsMetadata;
      return names_.insert(key).second || fail("this name occurs twice");
    }
    field_ = key;
    if (!fields_.insert(key).second) return fail(in_quotes(key) + " occurs twice");
    return in_metadata_ || key == "dtype" || key == "shape" || key == "data_offsets" ||
           fail("unknown field " + in_quotes(key));
  }
  bool end_object() override {
    step();
    if (--depth_ != 1 || in_metadata_) return true;
    for (const char* field : {"dtype", "shape", "data_offsets"})
      if (!fields_.contains(field)) return fail(concat("no \"", field, '"'));
    return entries.back().offsets.size() == 2 || fail("\"data_offsets\" must have two numbers");
  }
  bool start_array(std::size_t) override {
    step();
    if (depth_ != 2 || in_metadata_ || list_ != nullptr || field_ == "dtype") return wrong("an array");
    list_ = &(field_ == "shape" ? entries.back().shape : entries.back().offsets);
    return true;
  }
  bool end_array() override {
    step();
    list_ = nullptr;
    return true;
  }
  bool string(std::string& value) override {
    step();
    if (depth_ != 2 || list_ != nullptr) return wrong("a string");
    if (in_metadata_) return metadata[field_] = value, true;
    if (field_ != "dtype") return wrong("a string");
    entries.back().dtype = value;
    return true;
  }
  bool number_unsigned(std::uint64_t value) override {
    step();
    if (list_ == nullptr) return wrong("a number");
    list_->push_back(value);
    return true;
  }
  bool number_integer(std::int64_t) override { return step(), wrong("a negative number"); }
  bool number_float(double, const std::string& text) override { return step(), wrong("the number " + shown(text)); }
  bool null() override { return step(), wrong("null"); }
  bool boolean(bool) override { return step(), wrong("a boolean"); }
  bool binary(nlohmann::json::binary_t&) override { return step(), wrong("binary data"); }
  bool parse_error(std::size_t position, const std::string& token, const nlohmann::json::exception&) override {
    at = position > 0 ? position - 1 : 0;
    problem = concat("the header is not valid JSON near ", in_quotes(token));
    return false;
  }

 private:
  void step() { at = cursor_.next(); }
  bool fail(const std::string& what) {
    problem = depth_ == 0 ? what : in_quotes(name_) + ": " + what;
    return false;
  }
  bool wrong(const std::string& what) {
    if (depth_ == 0) return fail(concat("the header must be an object, not ", what));
    if (depth_ == 1) return fail(concat("expected an object, found ", what));
    if (in_metadata_) return fail(concat(in_quotes(field_), ": expected a string, found ", what));
    return fail(concat(in_quotes(field_), ": expected ",
                       field_ == "dtype" ? "a string" : "a list of non-negative integers", ", found ", what));
  }

  TokenCursor cursor_;
  int depth_ = 0;  // open objects
  bool in_metadata_ = false;
  std::string name_, field_;
  std::size_t name_at_ = 0;
  std::set<std::string> names_, fields_;
  std::vector<std::uint64_t>* list_ = nullptr;
};

class Refusal {
 public:
  explicit Refusal(const std::string& file) : file_(file) {}
  template <class... Parts>
  [[noreturn]] void operator()(std::uint64_t byte, const Parts&... parts) const {
    throw InputError(concat(file_, ": byte ", byte, ": ", parts...));
  }

 private:
  const std::string& file_;
};

/// Checks the rules on lengths first.
std::string_view header_text(std::string_view bytes, const Refusal& refuse) {
  const std::uint64_t size = bytes.size();
  std::uint64_t length = 0;
  if (size < kSafetensorsLengthBytes) refuse(size, "the file ends before the 8 bytes of its header's length");
  std::memcpy(&length, bytes.data(), kSafetensorsLengthBytes);
  if (length > kMaxSafetensorsHeader)
    refuse(0, "a header of ", length, " bytes is over the limit of ", kMaxSafetensorsHeader,
           "; this is not a safetensors file, or it is damaged");
  if (length > size - kSafetensorsLengthBytes)
    refuse(0, "the header should have ", length, " bytes but ", size - kSafetensorsLengthBytes,
           " follow; the file is truncated");
  const std::string_view header = bytes.substr(kSafetensorsLengthBytes, length);
  if (header.empty() || header.front() != '{') refuse(kSafetensorsLengthBytes, "the header does not begin with {");
  // The parser takes a NUL for the end of the text and would ignore what follows.
  if (const auto nul = header.find('\0'); nul != header.npos)
    refuse(kSafetensorsLengthBytes + nul, "a NUL in the header");
  return header;
}

void check_sizes(const std::vector<SafetensorsEntry>& entries, const Refusal& refuse) {
  for (const SafetensorsEntry& entry : entries) {
    std::string problem;
    const auto expected = safetensors_bytes(entry.dtype, entry.shape, problem);
    const std::uint64_t begin = entry.offsets[0], end = entry.offsets[1];
    if (!expected) refuse(entry.at, in_quotes(entry.name), ": ", problem);
    if (end < begin)
      refuse(entry.at, in_quotes(entry.name), ": data_offsets end at ", end, " before they begin at ", begin);
    if (end - begin != *expected)
      refuse(entry.at, in_quotes(entry.name), ": data_offsets span ", end - begin, " bytes, its shape needs ",
             *expected);
  }
}

/// Sorted entries must fill the data from its first byte to its last.
void check_places(const std::vector<SafetensorsEntry>& entries, std::uint64_t data_begin, std::uint64_t size,
                  const Refusal& refuse) {
  std::uint64_t last_end = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::uint64_t begin = entry.offsets[0];
    if (begin != last_end)
      refuse(entry.at, in_quotes(entry.name), ": begins at ", begin, " of the data but the tensor before it ends at ",
             last_end);
    last_end = entry.offsets[1];
  }
  const std::uint64_t data_bytes = size - data_begin;
  if (last_end > data_bytes)
    refuse(size, "the tensors need ", last_end, " bytes but ", data_bytes, " are there; the file is truncated");
  if (last_end < data_bytes) refuse(data_begin + last_end, data_bytes - last_end, " bytes after the last tensor");
}

}  // namespace

std::optional<std::size_t> safetensors_dtype_rank(std::string_view dtype) {
  const auto found = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const Dtype& d) { return d.name == dtype; });
  if (found == kDtypes.end()) return std::nullopt;
  return static_cast<std::size_t>(found - kDtypes.begin());
}

std::optional<std::uint64_t> safetensors_bytes(std::string_view dtype, const std::vector<std::uint64_t>& shape,
                                               std::string& problem) {
  const auto rank = safetensors_dtype_rank(dtype);
  if (!rank) {
    problem = "unknown dtype " + in_quotes(dtype);
    return std::nullopt;
  }
  // Checks each product in the order of the reference implementation, so that the same files are legal: 2^32 x 2^32
  // must not overflow to zero, while 0 x 2^63 is zero.
  std::uint64_t count = 1, bits = 0;
  bool fits = true;
  for (const std::uint64_t extent : shape) fits = fits && !__builtin_mul_overflow(count, extent, &count);
  if (!fits || __builtin_mul_overflow(count, kDtypes[*rank].bits, &bits)) {
    problem = "its shape has more elements than 64 bits can count";
    return std::nullopt;
  }
  if (bits % 8 != 0) {
    problem = concat("its ", bits, " bits are not whole bytes");
    return std::nullopt;
  }
  return bits / 8;
}

SafetensorsHeader read_safetensors_header(std::string_view bytes, const std::string& file) {
  const Refusal refuse(file);
  const std::string_view text = header_text(bytes, refuse);
  HeaderReader reader(text);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader))
    refuse(kSafetensorsLengthBytes + reader.at, reader.problem);

  SafetensorsHeader header{std::move(reader.entries), std::move(reader.metadata),
                           kSafetensorsLengthBytes + text.size()};
  for (SafetensorsEntry& entry : header.tensors) entry.at += kSafetensorsLengthBytes;
  check_sizes(header.tensors, refuse);
  const auto place = [](const SafetensorsEntry& e) { return std::tie(e.offsets[0], e.offsets[1]); };
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [&](const SafetensorsEntry& a, const SafetensorsEntry& b) { return place(a) < place(b); });
  check_places(header.tensors, header.data_begin, bytes.size(), refuse);
  return header;
}

}  // namespace normlab
