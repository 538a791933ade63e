// The order of classes whose names alone are known, which numbers their labels.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// Orders of DatasetConfig::class_order. bytes: as torchvision's ImageFolder sorts; natural: as timm's natural_key
/// does, numbers by value and letters (here those of ASCII) without their case.
inline constexpr std::string_view kBytesOrder = "bytes", kNaturalOrder = "natural";

/// Names of equal keys, such as "7" and "07", are in the order of their bytes.
std::vector<std::string> in_natural_order(std::vector<std::string> names);
std::vector<std::string> in_bytes_order(std::vector<std::string> names);

/// `names` in the order that `class_order` gives; "": as they are. A file of `folder` is the list itself, and may name
/// classes that `names` lacks. InputError: the file is outside the folder, cannot be read, or lacks a name.
std::vector<std::string> in_class_order(std::vector<std::string> names, const std::string& class_order,
                                        const std::filesystem::path& folder);
/// The list of a file below `folder`; nullopt if `class_order` names no file.
std::optional<std::vector<std::string>> listed_order(const std::string& class_order,
                                                     const std::filesystem::path& folder);

/// Whether all are of the form n########, as ImageNet's.
bool are_wnids(const std::vector<std::string>& names);

/// "0, 1, 10, 11, ...": a few names, among them the first at which `names` and `other` differ.
std::string beginning_of(const std::vector<std::string>& names, const std::vector<std::string>& other);

}  // namespace normlab
