// The frame of all HTML pages. A page needs neither network nor server.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// The style sheet of a page, without the rules for pictures.
std::string_view page_style();

/// Sorts and filters the table and opens the parts below it. A page is readable without it.
std::string_view page_script();

/// From the doctype to <body>, with both style sheets. The Content-Security-Policy allows page_script() and embedded
/// images alone. The page reloads after `reload_seconds`; 0: never.
std::string page_start(const std::string& title, int reload_seconds = 0);
/// page_script() and the end of the page.
std::string page_end();

/// <tag class="name">escaped text</tag>
std::string html_element(std::string_view tag, std::string_view text, std::string_view name = "");

/// A table of headings and rows, whose first cells are headings too. caption: "" for none.
std::string html_table(const std::vector<std::vector<std::string>>& rows, const std::string& caption = "");

}  // namespace normlab
