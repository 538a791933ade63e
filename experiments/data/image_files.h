// Folders of image files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace normlab {

bool is_folder(const std::filesystem::path& path);

/// True for .jpg, .jpeg and .png in any case.
bool has_image_extension(const std::filesystem::path& file);

/// What lies in a folder, in byte order, without names that begin with a dot. Links are followed.
struct FolderContent {
  std::vector<std::string> folders, files;
};
/// InputError: cannot be listed, a link that leads nowhere, what is neither file nor folder.
FolderContent folder_content(const std::filesystem::path& folder);

/// Every image in `folder` and the folders in it, as paths below `folder`. InputError as folder_content, and for a file
/// that is no image (with a word on those that others read: bmp, webp, ...) and a folder that contains itself.
std::vector<std::string> find_images(const std::filesystem::path& folder);

}  // namespace normlab
