// The text of a measurement: key and value lines, and a table for each list of rows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace normlab {

/// "712 G", "1.21 T": three digits.
std::string scaled(double value);
/// In the order of the document, lines first. Units and decimals follow from the keys. Tables keep to 80 columns where
/// their cells allow it.
std::string bench_text(const nlohmann::ordered_json& document);

}  // namespace normlab
