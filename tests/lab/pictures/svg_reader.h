// Reads back what a picture draws: the elements of a tag with their attributes and text.
#pragma once

#include <map>
#include <regex>
#include <string>
#include <vector>

namespace normlab {

struct DrawnElement {
  std::map<std::string, std::string> attributes;
  std::string content;  // up to the next tag
  double number(const std::string& name) const { return std::stod(attributes.at(name)); }
  bool is(const std::string& name) const {
    const auto found = attributes.find("class");
    return found != attributes.end() && (" " + found->second + " ").find(" " + name + " ") != std::string::npos;
  }
};

/// Elements <tag ...> whose class holds `name`, or all of them for "".
inline std::vector<DrawnElement> drawn(const std::string& svg, const std::string& tag, const std::string& name = "") {
  static const std::regex attribute("([a-zA-Z0-9-]+)=\"([^\"]*)\"");
  std::vector<DrawnElement> elements;
  for (std::size_t at = 0; (at = svg.find("<" + tag, at)) != svg.npos;) {
    at += tag.size() + 1;
    if (svg[at] != ' ' && svg[at] != '>' && svg[at] != '/') continue;
    const std::size_t end = svg.find('>', at);
    const std::string head = svg.substr(at, end - at);
    DrawnElement element;
    for (std::sregex_iterator i(head.begin(), head.end(), attribute), last; i != last; ++i)
      element.attributes[(*i)[1]] = (*i)[2];
    element.content = svg.substr(end + 1, svg.find('<', end) - end - 1);
    if (name.empty() || element.is(name)) elements.push_back(element);
  }
  return elements;
}

/// All numbers of a path's "d".
inline std::vector<double> path_numbers(const std::string& path) {
  static const std::regex number("-?[0-9]+(\\.[0-9]+)?");
  std::vector<double> numbers;
  for (std::sregex_iterator i(path.begin(), path.end(), number), last; i != last; ++i)
    numbers.push_back(std::stod(i->str()));
  return numbers;
}

inline std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++count;
  return count;
}

}  // namespace normlab
