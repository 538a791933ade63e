// Documentation of descriptors, from the reader's field tables.
#pragma once

#include <string>

namespace normlab {

/// Draft 2020-12.
std::string json_schema();

/// Markdown tables of every key with its type, default and meaning.
std::string describe_fields();

}  // namespace normlab
