#include "experiments/lab/weights/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <set>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/regular_file.h"
#include "experiments/lab/base/safetensors_header.h"
#include "experiments/lab/data/archive.h"

namespace normlab {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are copied byte by byte");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kVersionBytes = 2;
constexpr std::size_t kMaxHeader = 65535;  // the limit of version 1.0; later versions need no more for a plain array
constexpr std::size_t kMaxRank = 32;       // NumPy's own limit before version 2
constexpr std::size_t kAlignment = 64;     // of the data

struct Descr {
  std::string_view descr, dtype;
};
constexpr std::array kDescrs{Descr{"<f4", "F32"}, Descr{"<f2", "F16"}, Descr{"<f8", "F64"},  Descr{"<i4", "I32"},
                             Descr{"<i8", "I64"}, Descr{"|u1", "U8"},  Descr{"|b1", "BOOL"}, Descr{"|V2", "BF16"}};

std::string known_descrs() {
  std::string list;
  for (const Descr& known : kDescrs) list += concat(list.empty() ? "" : " ", known.descr);
  return list;
}

struct Header {
  std::string dtype;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
};

/// Parses the dict of the header: each of the three keys once, in any order; strings in one kind of quotes without
/// backslashes; spaces between tokens; an optional comma before } and ).
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::size_t offset, const std::string& where)
      : text_(text), offset_(offset), where_(where) {}

  Header read() {
    Header header;
    std::string seen;
    each('{', '}', [&] {
      const std::size_t at = (skip_spaces(), at_);
      const std::string key(string());
      if (key != "descr" && key != "fortran_order" && key != "shape") fail(at, "unknown key ", in_quotes(key));
      if (seen.find(key + ' ') != seen.npos) fail(at, "the key ", in_quotes(key), " occurs twice");
      seen += key + ' ';
      expect(':');
      if (key == "descr") header.dtype = dtype();
      if (key == "fortran_order") header.fortran_order = boolean();
      if (key == "shape") header.shape = shape();
    });
    for (const std::string key : {"descr", "fortran_order", "shape"})
      if (seen.find(key + ' ') == seen.npos) fail(at_, "the header has no ", in_quotes(key));
    skip_spaces();
    if (at_ != text_.size()) fail(at_, "expected spaces up to the end of the header, found ", found());
    return header;
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(std::size_t at, const Parts&... parts) const {
    throw InputError(concat(where_, ": byte ", offset_ + at, ": ", parts...));
  }
  std::string found() const {
    if (at_ == text_.size()) return "its end";
    const unsigned char c = static_cast<unsigned char>(text_[at_]);
    return c > ' ' && c < 127 ? concat('"', text_[at_], '"') : concat("a byte ", int(c));
  }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool accept(char token) {
    skip_spaces();
    const bool there = at_ < text_.size() && text_[at_] == token;
    at_ += there;
    return there;
  }
  void expect(char token) {
    if (!accept(token)) fail(at_, "expected \"", token, "\", found ", found());
  }
  /// Reads items between commas; the only one of a shape has one behind it.
  template <class Item>
  void each(char open, char close, const Item& item) {
    expect(open);
    for (int count = 1; !accept(close); ++count) {
      item();
      if (accept(',')) continue;
      if (open == '(' && count == 1) fail(at_, "expected \",\" after the only dimension, found ", found());
      return expect(close);
    }
  }
  std::string_view string() {
    skip_spaces();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) {
      fail(at_, "expected a string in quotes, found ", found());
    }
    const char quote = text_[at_];
    const std::size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] != quote) {
      const char c = text_[at_];
      if (c == '\\' || c < ' ' || c > '~') fail(at_, "expected letters and a closing quote, found ", found());
      ++at_;
    }
    if (at_ == text_.size()) fail(begin - 1, "the string has no closing quote");
    return text_.substr(begin, at_++ - begin);
  }
  std::string dtype() {
    skip_spaces();
    const std::size_t at = at_;
    if (at_ < text_.size() && text_[at_] == '[') {
      fail(at, "a structured array is not supported; expected plain numbers: ", known_descrs());
    }
    const std::string_view descr = string();
    const auto known = std::find_if(kDescrs.begin(), kDescrs.end(), [&](const Descr& d) { return d.descr == descr; });
    if (known != kDescrs.end()) return std::string(known->dtype);
    if (descr == "O" || descr == "|O")
      fail(at, "pickled Python objects are not supported; expected plain numbers: ", known_descrs());
    if (descr.starts_with('>'))
      fail(at, "big-endian numbers (", in_quotes(descr), "); save the array as ", known_descrs());
    fail(at, "numbers of the type ", in_quotes(descr), " are not supported; save the array as one of ", known_descrs());
  }
  bool boolean() {
    skip_spaces();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) return at_ += word.size(), value;
    }
    fail(at_, "expected True or False, found ", found());
  }
  std::vector<std::uint64_t> shape() {
    std::vector<std::uint64_t> extents;
    each('(', ')', [&] {
      if (extents.size() == kMaxRank) fail(at_, "more than ", kMaxRank, " dimensions");
      extents.push_back(extent());
    });
    return extents;
  }
  std::uint64_t extent() {
    skip_spaces();
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    if (begin != end && *begin == '-') fail(at_, "a negative dimension");
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error == std::errc::invalid_argument) fail(at_, "expected a dimension, found ", found());
    if (error != std::errc()) fail(at_, "a dimension beyond 63 bits");
    if (*begin == '0' && stop - begin > 1) fail(at_, "a dimension with a leading zero");
    at_ += static_cast<std::size_t>(stop - begin);
    return static_cast<std::uint64_t>(value);
  }

  std::string_view text_;
  std::size_t offset_, at_ = 0;
  const std::string& where_;
};

/// Converts an array in Fortran order to row-major order.
std::vector<std::byte> row_major(std::span<const std::byte> data, const std::vector<std::uint64_t>& shape,
                                 std::size_t item) {
  std::vector<std::byte> result(data.size());
  std::vector<std::uint64_t> index(shape.size(), 0), stride(shape.size(), item);
  for (std::size_t axis = 1; axis < shape.size(); ++axis) stride[axis] = stride[axis - 1] * shape[axis - 1];
  std::uint64_t from = 0;
  for (std::size_t to = 0; to < result.size(); to += item) {
    std::memcpy(result.data() + to, data.data() + from, item);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      from += stride[axis];
      if (++index[axis] < shape[axis]) break;
      from -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return result;
}

constexpr std::string_view kEnding = ".npy";

/// What is wrong with a member's name; empty if it is valid. Names become tensor names and, in other programs, paths.
std::string wrong_name(std::string_view name) {
  if (!name.ends_with(kEnding)) return "is not an .npy array; an .npz file holds only those";
  name.remove_suffix(kEnding.size());
  for (const char c : name)
    if (c < ' ' || c > '~' || c == '\\') return "has a name with a backslash or characters outside printable ASCII";
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return "has a name with an empty part, \".\" or \"..\" in it";
    begin = end + 1;
  }
  return "";
}

/// Collects the members of `file`, which `read` passes one by one.
template <class Read>
Tensors collect(const std::string& file, const Read& read) {
  Tensors tensors(file);
  std::set<std::string> names;
  read([&](ArchiveMember member) {
    const std::string where = concat(file, ": member ", in_quotes(member.name), " (from byte ", member.offset, ')');
    if (const std::string wrong = wrong_name(member.name); !wrong.empty()) throw InputError(concat(where, ' ', wrong));
    if (!names.insert(member.name).second) throw InputError(concat(where, " occurs twice"));
    const auto content = std::make_shared<const std::vector<std::uint8_t>>(std::move(member.content));
    tensors.add(parse_npy(member.name.substr(0, member.name.size() - kEnding.size()), where,
                          std::as_bytes(std::span(*content)), content));
  });
  if (tensors.size() == 0) throw InputError(concat(file, ": holds no arrays"));
  return tensors;
}

}  // namespace

HostTensor read_npy(const std::filesystem::path& path) {
  const auto bytes = std::make_shared<const std::string>(RegularFile(path).read());
  return parse_npy(path.stem().string(), path.string(), std::as_bytes(std::span(*bytes)), bytes);
}

HostTensor parse_npy(std::string name, const std::string& where, std::span<const std::byte> bytes,
                     std::shared_ptr<const void> owner) {
  const auto fail = [&](const auto&... parts) { throw InputError(concat(where, ": ", parts...)); };
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.substr(0, kMagic.size()) != kMagic)
    fail("byte 0: this is not an .npy array: it does not begin with the magic \\x93NUMPY");
  const std::size_t begin = kMagic.size() + kVersionBytes;
  if (text.size() < begin) fail("byte ", text.size(), ": the file ends before its version");
  const int major = std::to_integer<int>(bytes[kMagic.size()]), minor = std::to_integer<int>(bytes[begin - 1]);
  if (major < 1 || major > 3 || minor != 0)
    fail("byte ", kMagic.size(), ": version ", major, '.', minor,
         " of the format is not supported; expected 1.0, 2.0 or 3.0");

  const std::size_t length_bytes = major == 1 ? 2 : 4;
  std::uint32_t header_bytes = 0;
  if (text.size() - begin < length_bytes) fail("byte ", text.size(), ": the file ends before its header's length");
  std::memcpy(&header_bytes, text.data() + begin, length_bytes);
  const std::size_t header_at = begin + length_bytes;
  if (header_bytes > kMaxHeader)
    fail("byte ", begin, ": a header of ", header_bytes, " bytes exceeds the limit of ", kMaxHeader);
  if (header_bytes > text.size() - header_at)
    fail("byte ", begin, ": the header should have ", header_bytes, " bytes but ", text.size() - header_at,
         " follow; the file is truncated");
  const std::string_view dict = text.substr(header_at, header_bytes);
  const std::size_t data_at = header_at + header_bytes;
  if (dict.empty() || dict.back() != '\n') fail("byte ", data_at, ": the header does not end with a newline");
  Header header = HeaderReader(dict.substr(0, dict.size() - 1), header_at, where).read();

  std::string problem;
  const auto expected = safetensors_bytes(header.dtype, header.shape, problem);
  if (!expected) fail("byte ", header_at, ": ", problem);
  const std::size_t there = text.size() - data_at;
  if (*expected > there)
    fail("byte ", text.size(), ": the array needs ", *expected, " bytes but ", there,
         " are there; the file is truncated");
  if (*expected < there) fail("byte ", data_at + *expected, ": ", there - *expected, " bytes after the array");

  std::span<const std::byte> data = bytes.subspan(data_at);
  if (header.fortran_order && !data.empty()) {
    const std::size_t item = *safetensors_bytes(header.dtype, {}, problem);
    const auto turned = std::make_shared<const std::vector<std::byte>>(row_major(data, header.shape, item));
    data = *turned;
    owner = turned;
  }
  return {{std::move(name), std::move(header.dtype), std::move(header.shape), data}, std::move(owner)};
}

std::string write_npy_bytes(const TensorView& tensor) {
  const auto fail = [&](const auto&... parts) {
    throw InputError(concat("tensor ", in_quotes(tensor.name), " cannot be written as .npy: ", parts...));
  };
  const auto known =
      std::find_if(kDescrs.begin(), kDescrs.end(), [&](const Descr& d) { return d.dtype == tensor.dtype; });
  if (known == kDescrs.end()) fail("the format has no dtype ", tensor.dtype);
  std::string problem;
  const auto expected = safetensors_bytes(tensor.dtype, tensor.shape, problem);
  if (!expected) fail(problem);
  if (*expected != tensor.data.size()) fail("has ", tensor.data.size(), " bytes, but its shape needs ", *expected);
  if (tensor.shape.size() > kMaxRank) fail("more than ", kMaxRank, " dimensions");

  std::string shape;
  for (const std::uint64_t extent : tensor.shape) {
    if (extent > std::uint64_t{INT64_MAX}) fail("a dimension beyond 63 bits");
    shape += concat(shape.empty() ? "" : " ", extent, ',');
  }
  if (tensor.shape.size() > 1) shape.pop_back();
  std::string header = concat("{'descr': '", known->descr, "', 'fortran_order': False, 'shape': (", shape, "), }");
  const std::size_t before = kMagic.size() + kVersionBytes + 2;
  header.append(kAlignment - 1 - (before + header.size()) % kAlignment, ' ');
  header += '\n';

  std::string bytes = concat(kMagic, '\1', '\0', char(header.size() & 255), char(header.size() >> 8), header);
  bytes.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  return bytes;
}

Tensors read_npz(const std::filesystem::path& path) {
  return collect(path.string(), [&](const auto& visit) { read_zip(path, visit); });
}

Tensors parse_npz(std::span<const std::byte> bytes, const std::string& file) {
  return collect(file, [&](const auto& visit) { read_zip(bytes, file, visit); });
}

std::string write_npz_bytes(const std::vector<TensorView>& tensors) {
  if (tensors.empty()) throw InputError("an .npz file without arrays cannot be written, because no reader accepts it");
  ZipWriter zip;
  std::set<std::string> names;
  for (const TensorView& tensor : tensors) {
    const std::string name = concat(tensor.name, kEnding);
    if (const std::string wrong = wrong_name(name); !wrong.empty())
      throw InputError(concat("tensor ", in_quotes(tensor.name), " cannot be written as .npz: ", wrong));
    if (!names.insert(name).second) throw InputError(concat("tensor ", in_quotes(tensor.name), " occurs twice"));
    zip.add(name, write_npy_bytes(tensor));
  }
  return zip.finish();
}

void write_npz(const std::filesystem::path& path, const Tensors& tensors) {
  write_file_or_stream(path, write_npz_bytes(tensors.views()));
}

}  // namespace normlab
