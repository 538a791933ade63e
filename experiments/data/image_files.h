// Folders of image files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
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

/// Files that do not belong in a data folder, told at once.
class StrayFiles {
 public:
  void add(const std::filesystem::path& file, std::string_view why);
  /// InputError where there is one: the first ten, a line each, and how many more.
  void refuse() const;

 private:
  std::string first_;
  std::size_t count_ = 0, shown_ = 0;
};

/// Every image in `folder` and the folders in it, as paths below `folder`. Files that are no image are strays, with a
/// word on those that others read: bmp, webp, ... InputError as folder_content, and for a folder that contains itself.
std::vector<std::string> find_images(const std::filesystem::path& folder, StrayFiles& strays);

}  // namespace normlab
