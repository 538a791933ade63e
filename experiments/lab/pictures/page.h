// The frame of all HTML pages. A page needs neither network nor server.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// From the doctype to <body>, with both style sheets. The Content-Security-Policy allows the script of page_end()
/// and embedded images alone. The page reloads after `reload_seconds`; 0: never.
std::string page_start(const std::string& title, int reload_seconds = 0);
/// The end of a page whose first table, below #results, is sorted and filtered by a script, if the browser runs it.
std::string page_end();

/// <tag class="name">escaped text</tag>
std::string html_element(std::string_view tag, std::string_view text, std::string_view name = "");

/// A table of headings and rows, whose first cells are headings too. caption: "" for none.
std::string html_table(const std::vector<std::vector<std::string>>& rows, const std::string& caption = "");

}  // namespace normlab
