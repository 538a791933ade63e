#include "experiments/weights/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "core/error.h"
#include "experiments/results/files.h"

namespace normlab {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are copied byte by byte");

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // limit of the reference implementation
constexpr std::uint64_t kLengthBytes = 8;
constexpr const char* kMetadataKey = "__metadata__";

struct Dtype {
  std::string_view name;
  std::uint64_t bits;
};
/// In the order of the reference implementation, narrow to wide; the writer goes through it backwards.
constexpr std::array kDtypes{Dtype{"BOOL", 8},    Dtype{"F4", 4},          Dtype{"F6_E2M3", 6},     Dtype{"F6_E3M2", 6},
                             Dtype{"U8", 8},      Dtype{"I8", 8},          Dtype{"F8_E5M2", 8},     Dtype{"F8_E4M3", 8},
                             Dtype{"F8_E8M0", 8}, Dtype{"F8_E4M3FNUZ", 8}, Dtype{"F8_E5M2FNUZ", 8}, Dtype{"I16", 16},
                             Dtype{"U16", 16},    Dtype{"F16", 16},        Dtype{"BF16", 16},       Dtype{"I32", 32},
                             Dtype{"U32", 32},    Dtype{"F32", 32},        Dtype{"C64", 64},        Dtype{"F64", 64},
                             Dtype{"I64", 64},    Dtype{"U64", 64}};

/// Rank in kDtypes; its size where there is no such dtype.
std::size_t dtype_rank(std::string_view name) {
  std::size_t rank = 0;
  while (rank < kDtypes.size() && kDtypes[rank].name != name) ++rank;
  return rank;
}

struct Entry {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape, offsets;  // offsets: two, once the header is read
};

/// Takes the header apart as it is parsed. nlohmann keeps the last of two equal keys without a word when it builds a
/// document, so none is built. A callback that finds a broken rule sets problem() and stops the parser.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;
  std::string problem;
  std::size_t offset = 0;  // of a syntax error, in the header

  bool start_object(std::size_t) override {
    if (depth_ == 0) return ++depth_, true;
    if (depth_ == 1) {
      fields_.clear();
      if (!in_metadata_) entries.emplace_back().name = name_;
      return ++depth_, true;
    }
    return wrong("an object");
  }
  bool key(std::string& key) override {
    if (key.find('\0') != key.npos) return fail("a NUL in a key");
    if (depth_ == 1) {
      name_ = key;
      in_metadata_ = key == kMetadataKey;
      return names_.insert(key).second || fail("this name comes twice");
    }
    field_ = key;
    if (!fields_.insert(key).second) return fail(concat("\"", key, "\" comes twice"));
    return in_metadata_ || key == "dtype" || key == "shape" || key == "data_offsets" ||
           fail(concat("unknown field \"", key, '"'));
  }
  bool end_object() override {
    if (--depth_ == 1 && !in_metadata_) {
      for (const char* field : {"dtype", "shape", "data_offsets"})
        if (!fields_.contains(field)) return fail(concat("no \"", field, '"'));

      if (entries.back().offsets.size() != 2) return fail("\"data_offsets\" must have two numbers");
    }
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_metadata_ || list_ != nullptr || field_ == "dtype") return wrong("an array");
    list_ = &(field_ == "shape" ? entries.back().shape : entries.back().offsets);
    return true;
  }
  bool end_array() override {
    list_ = nullptr;
    return true;
  }
  bool string(std::string& value) override {
    if (depth_ != 2 || list_ != nullptr) return wrong("a string");
    if (in_metadata_) return metadata[field_] = value, true;
    if (field_ != "dtype") return wrong("a string");
    entries.back().dtype = value;
    return true;
  }
  bool number_unsigned(std::uint64_t value) override {
    if (list_ == nullptr) return wrong("a number");
    list_->push_back(value);
    return true;
  }
  bool number_integer(std::int64_t) override { return wrong("a negative number"); }
  bool number_float(double, const std::string& text) override { return wrong("the number " + text); }
  bool null() override { return wrong("null"); }
  bool boolean(bool) override { return wrong("a boolean"); }
  bool binary(nlohmann::json::binary_t&) override { return wrong("binary data"); }
  bool parse_error(std::size_t position, const std::string& token, const nlohmann::json::exception&) override {
    offset = position > 0 ? position - 1 : 0;
    problem = concat("the header is not valid JSON near \"", token, '"');
    syntax_ = true;
    return false;
  }
  bool syntax_error() const { return syntax_; }

 private:
  bool fail(const std::string& what) {
    problem = depth_ == 0 ? what : concat("\"", name_, "\": ", what);
    return false;
  }
  bool wrong(const std::string& what) {
    if (depth_ == 0) return fail(concat("the header must be an object, not ", what));
    if (depth_ == 1) return fail(concat("expected an object, found ", what));
    if (in_metadata_) return fail(concat("\"", field_, "\": expected a string, found ", what));
    return fail(concat("\"", field_, "\": expected ",
                       field_ == "dtype" ? "a string" : "a list of non-negative integers", ", found ", what));
  }

  int depth_ = 0;  // open objects
  bool in_metadata_ = false, syntax_ = false;
  std::string name_, field_;
  std::set<std::string> names_, fields_;
  std::vector<std::uint64_t>* list_ = nullptr;
};

}  // namespace

std::optional<std::uint64_t> tensor_bytes(std::string_view dtype, const std::vector<std::uint64_t>& shape,
                                          std::string& problem) {
  const std::size_t rank = dtype_rank(dtype);
  if (rank == kDtypes.size()) {
    problem = concat("unknown dtype \"", dtype, '"');
    return std::nullopt;
  }
  std::uint64_t bits = kDtypes[rank].bits;
  // Every factor is multiplied, also behind a zero: 2^32 x 2^32 must not pass as nothing.
  for (const std::uint64_t extent : shape)
    if (__builtin_mul_overflow(bits, extent, &bits)) {
      problem = "its shape has more elements than 64 bits can count";
      return std::nullopt;
    }
  if (bits % 8 != 0) {
    problem = concat("its ", bits, " bits are not whole bytes");
    return std::nullopt;
  }
  return bits / 8;
}

SafetensorsFile SafetensorsFile::read(const std::filesystem::path& path) {
  return parse(read_file(path), path.string());
}

SafetensorsFile SafetensorsFile::parse(std::string bytes, std::string file) {
  const auto fail = [&](const auto&... parts) { throw InputError(concat(file, ": ", parts...)); };
  const std::uint64_t size = bytes.size();
  std::uint64_t header_bytes = 0;
  if (size < kLengthBytes) fail("byte ", size, ": the file ends before the 8 bytes of its header's length");
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  if (header_bytes > kMaxHeaderBytes)
    fail("byte 0: a header of ", header_bytes, " bytes is over the limit of ", kMaxHeaderBytes,
         "; this is no safetensors file or a damaged one");
  if (header_bytes > size - kLengthBytes)
    fail("byte 0: the header is said to have ", header_bytes, " bytes but ", size - kLengthBytes,
         " follow; the file is cut short");
  const std::string_view header(bytes.data() + kLengthBytes, header_bytes);
  if (header.empty() || header.front() != '{') fail("byte 8: the header does not begin with {");
  // The parser takes a NUL for the end of the text and would not look at what follows.
  if (const auto nul = header.find('\0'); nul != header.npos)
    fail("byte ", kLengthBytes + nul, ": a NUL in the header");

  HeaderReader reader;
  if (!nlohmann::json::sax_parse(header.begin(), header.end(), &reader)) {
    if (reader.syntax_error()) fail("byte ", kLengthBytes + reader.offset, ": ", reader.problem);
    fail(reader.problem);
  }

  std::vector<Entry>& entries = reader.entries;
  for (const Entry& entry : entries) {
    std::string problem;
    const auto expected = tensor_bytes(entry.dtype, entry.shape, problem);
    const std::uint64_t begin = entry.offsets[0], end = entry.offsets[1];
    if (!expected) fail("\"", entry.name, "\": ", problem);
    if (end < begin) fail("\"", entry.name, "\": data_offsets end at ", end, " before they begin at ", begin);
    if (end - begin != *expected)
      fail("\"", entry.name, "\": data_offsets span ", end - begin, " bytes, its shape needs ", *expected);
  }
  const auto place = [](const Entry& entry) { return std::tie(entry.offsets[0], entry.offsets[1]); };
  std::stable_sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) { return place(a) < place(b); });
  std::uint64_t last_end = 0;
  for (const Entry& entry : entries) {
    const std::uint64_t begin = entry.offsets[0];
    if (begin != last_end)
      fail("\"", entry.name, "\": begins at ", begin, " of the data but the tensor before it ends at ", last_end);
    last_end = entry.offsets[1];
  }
  const std::uint64_t data_bytes = size - kLengthBytes - header_bytes;
  if (last_end > data_bytes)
    fail("byte ", size, ": the tensors need ", last_end, " bytes but ", data_bytes,
         " are there; the file is cut short");
  if (last_end < data_bytes)
    fail("byte ", kLengthBytes + header_bytes + last_end, ": ", data_bytes - last_end, " bytes after the last tensor");

  SafetensorsFile result;
  result.file_ = std::move(file);
  result.bytes_ = std::make_shared<const std::string>(std::move(bytes));
  result.metadata_ = std::move(reader.metadata);
  const std::byte* data = reinterpret_cast<const std::byte*>(result.bytes_->data()) + kLengthBytes + header_bytes;
  for (Entry& entry : entries) {
    const std::uint64_t begin = entry.offsets[0], end = entry.offsets[1];
    result.index_[entry.name] = result.tensors_.size();
    result.tensors_.push_back({std::move(entry.name), std::move(entry.dtype), std::move(entry.shape),
                               std::span(data + begin, std::size_t(end - begin))});
  }
  return result;
}

const TensorView* SafetensorsFile::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const TensorView& SafetensorsFile::get(const std::string& name) const {
  const TensorView* tensor = find(name);
  if (tensor == nullptr) throw InputError(concat(file_, ": there is no tensor \"", name, '"'));
  return *tensor;
}

void SafetensorsFile::refuse_dtype(const TensorView& tensor) const {
  throw InputError(concat(file_, ": \"", tensor.name, "\": its dtype ", tensor.dtype, " is not the one expected here"));
}

std::string write_safetensors_bytes(std::map<std::string, std::string> metadata, std::vector<TensorView> tensors) {
  metadata.try_emplace("format", "pt");
  std::sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
    return std::make_tuple(dtype_rank(b.dtype), std::cref(a.name)) <
           std::make_tuple(dtype_rank(a.dtype), std::cref(b.name));
  });
  std::uint64_t offset = 0;
  std::set<std::string> names{kMetadataKey};
  std::string header;
  try {
    header = concat("{\"", kMetadataKey, "\":", nlohmann::json(metadata).dump());
    for (const TensorView& tensor : tensors) {
      std::string problem;
      const auto bytes = tensor_bytes(tensor.dtype, tensor.shape, problem);
      if (tensor.name.find('\0') != tensor.name.npos) problem = "a NUL in the name";
      if (!names.insert(tensor.name).second) problem = "this name comes twice or is not free";
      if (bytes && *bytes != tensor.data.size())
        problem = concat("has ", tensor.data.size(), " bytes, its shape needs ", *bytes);
      if (!problem.empty()) throw InputError(concat("tensor \"", tensor.name, "\" cannot be written: ", problem));
      header += concat(',', nlohmann::json(tensor.name).dump(), ":{\"dtype\":\"", tensor.dtype,
                       "\",\"shape\":", nlohmann::json(tensor.shape).dump(), ",\"data_offsets\":[", offset, ',',
                       offset + tensor.data.size(), "]}");
      offset += tensor.data.size();
    }
  } catch (const nlohmann::json::type_error&) {
    throw InputError("a name or the metadata of a checkpoint is not valid UTF-8");
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  if (header.size() > kMaxHeaderBytes) throw InputError("a checkpoint's header would be over 100 MB");

  const std::uint64_t header_bytes = header.size();
  std::string bytes(kLengthBytes, '\0');
  bytes.reserve(kLengthBytes + header.size() + offset);
  std::memcpy(bytes.data(), &header_bytes, kLengthBytes);
  bytes += header;
  for (const TensorView& tensor : tensors)
    bytes.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  return bytes;
}

void save_safetensors(const std::filesystem::path& path, std::map<std::string, std::string> metadata,
                      std::vector<TensorView> tensors) {
  write_atomically(path, write_safetensors_bytes(std::move(metadata), std::move(tensors)));
}

}  // namespace normlab
