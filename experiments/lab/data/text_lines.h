// Text files with one item per line, as editors and spreadsheets write them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// `text` without UTF-8's byte-order mark at its begin.
std::string_view without_byte_order_mark(std::string_view text);

/// The lines of a file, without its byte-order mark and without carriage returns at their ends. InputError, with
/// `advice` if the file cannot be read, for UTF-16.
std::vector<std::string> text_lines(const std::filesystem::path& file, std::string_view advice);

/// Whether a field is in quotes as in CSV (RFC 4180), such as "a ""b""", and is not empty.
bool is_quoted(std::string_view field);
/// Its text, a "b"; a field that is not quoted is its own text.
std::string unquoted(std::string_view field);
/// `text` as a field that unquoted() and a reader of lines give back: in quotes if it begins with one or with a
/// byte-order mark.
std::string quoted_if_needed(const std::string& text);

/// Whether two lines may be equal.
enum class EqualNames : std::uint8_t { refused, allowed };

/// One name per line, or one quoted field of CSV, ignoring blank lines at the end. InputError: no names, a duplicate
/// unless allowed, a blank line in between.
std::vector<std::string> read_class_names(const std::filesystem::path& file, EqualNames equal = EqualNames::refused);
/// The same for other names: `what` is one of them, `purpose` says what the file is for if it is missing.
std::vector<std::string> read_names(const std::filesystem::path& file, std::string_view what, std::string_view purpose,
                                    EqualNames equal = EqualNames::refused);

}  // namespace normlab
