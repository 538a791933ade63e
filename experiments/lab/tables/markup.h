// Escapes text for HTML, SVG, Markdown and CSV, and encodes bytes as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// `text` as content or as a quoted attribute: & < > " ' become entities. What XML cannot hold (control characters,
/// bytes that are not UTF-8, U+FFFE, U+FFFF) becomes U+FFFD.
std::string escaped(std::string_view text);

/// A name for a file or an id: letters, digits and single "-"; "eval/accuracy" gives "eval-accuracy". Never empty.
std::string plain_name(std::string_view text);

/// A cell of a Markdown table, on one line: | \ * < lose their meaning.
std::string markdown_cell(std::string_view text);
/// A Markdown table of headings and rows; the columns after the first `words` are numbers.
std::string markdown_table(const std::vector<std::vector<std::string>>& rows, std::size_t words = SIZE_MAX);

/// A cell of CSV (RFC 4180), quoted if necessary.
std::string csv_cell(const std::string& text);

/// Base64 with padding (RFC 4648), as in a data URI.
std::string base64(std::string_view bytes);

}  // namespace normlab
