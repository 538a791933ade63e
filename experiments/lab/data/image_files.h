// Folders of image files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// Of ASCII letters.
std::string lower_case(std::string text);

bool is_folder(const std::filesystem::path& path);

inline constexpr const char* kImageEndings[] = {".jpg", ".jpeg", ".png"};
/// Beside a file of labels.
inline constexpr const char* kImagesFolder = "images";
/// True for these in any case.
bool has_image_extension(const std::filesystem::path& file);

/// True for README, LICENSE and the like, with any extension and in any case.
bool is_about_folder(const std::filesystem::path& file);

/// In which macOS packs files with a leading dot.
inline constexpr std::string_view kMacFolder = "__MACOSX";
/// True for it and for a name with a leading dot.
bool is_hidden_name(std::string_view name);

/// In byte order, without hidden names. Follows links.
struct FolderContent {
  std::vector<std::string> folders, files;
};
/// InputError: cannot be listed, a broken link, or an entry that is neither file nor folder.
FolderContent folder_content(const std::filesystem::path& folder);

/// Collects files that do not belong in a data folder.
class StrayFiles {
 public:
  void add(const std::filesystem::path& file, std::string_view why);
  /// The first ten, one per line, and how many more; "" if there are none.
  std::string text() const;
  /// InputError with this text if there are any.
  void refuse() const;

 private:
  static constexpr std::size_t kShown = 10;
  std::string first_;
  std::size_t count_ = 0;
};

/// Paths of all images in `folder` and its subfolders, relative to `folder`. Other files are strays, with a hint for
/// bmp, webp and the like. InputError as in folder_content, and for a folder that contains itself.
std::vector<std::string> find_images(const std::filesystem::path& folder, StrayFiles& strays);

}  // namespace normlab
