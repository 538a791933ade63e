// Describes descriptors for editors and readers, from the same field tables as the reader.
#pragma once

#include <string>

namespace normlab {

/// JSON Schema, draft 2020-12, of a descriptor file.
std::string json_schema();

/// Markdown tables of every key with its type, default and meaning.
std::string describe_fields();

}  // namespace normlab
