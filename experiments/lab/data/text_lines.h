// Text files with one item per line, as editors and spreadsheets write them.
#pragma once

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

}  // namespace normlab
