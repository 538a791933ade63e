// Readers of datasets on disk: a row of kLayouts for each layout, defined beside its reader. Each reader sorts a split's samples by key and decodes only the slice. Class names, label 0
// first, are available without opening an image.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "experiments/lab/data/image_index.h"
#include "experiments/lab/data/text_lines.h"
#include "experiments/lab/descriptor/dataset_config.h"

namespace normlab {

/// `folder` holds classes.txt (one name per line) and the split's shards: those that `shard_names` expands to
/// (experiments/lab/data/shard_names.h), or without it "train-000000.tar", "train-000001.tar", ... (or .tar.gz) without
/// gaps. In a shard, consecutive members "key.jpg" (.jpeg, .png) and "key.cls" (a decimal label) form one sample with
/// key "shard/key"; with masks, "key.jpg" (.jpeg) and "key.png", whose pixels are labels. With captions, "key.txt" is
/// the sample's text, and .cls may be absent where classes are not wanted (SliceRequest). Other members .json, .txt and
/// .npy belong to a sample and are not read; "__name__" is metadata; hidden files and __MACOSX are passed over;
/// anything else is an error. Classes may have equal names; labels tell them apart. Reads only labels now,
/// and images later from their place in the shard; a .tar.gz is kept in memory, up to 4 GiB. InputError with shard,
/// member and, for the archive itself, byte offset. Independent of the number of threads.
ImageSet read_webdataset(const std::filesystem::path& folder, const std::string& shard_names,
                         const SliceRequest& request);
/// Splits whose first shard is in `folder`, in byte order.
std::vector<std::string> webdataset_splits(const std::filesystem::path& folder);

/// CIFAR's binary files. CIFAR-10: data_batch_1.bin to data_batch_5.bin ("train"), test_batch.bin ("test"),
/// batches.meta.txt; each record is a label and three 32x32 planes. CIFAR-100: train.bin, test.bin,
/// fine_label_names.txt; an unused coarse label precedes the fine one. Keys are "data_batch_1/000042". InputError names
/// file, record and byte offset.
ImageSet read_cifar_binary(const std::filesystem::path& folder, const SliceRequest& request);

/// MNIST and similar datasets: train-images-idx3-ubyte and train-labels-idx1-ubyte ("train"), t10k-* ("test"); also as
/// train-images.idx3-ubyte, also with .gz. One channel. Class names come from classes.txt if present, else from
/// `dataset` if it is mnist, fashion_mnist or kmnist. Keys are "train/000042". InputError names file and byte.
ImageSet read_idx(const std::filesystem::path& folder, const SliceRequest& request);

/// `folder`/SPLIT/CLASS/.../NAME.jpg (.jpeg, .png, in any case). The label is CLASS's position among the class folders
/// in byte order, or in SliceRequest::class_names; the key is the path after SPLIT. Splits are the folders whose name
/// is_split_name(), or all folders if these hold the same folders, the classes. Without them those of `folder` are the
/// classes and "train" is its only split. A split that holds only a folder of its own name is that folder. Follows
/// links; skips names that begin with a dot and, beside class folders, README and the like. InputError: no such split
/// (with the existing ones), a folder that may be a split or a class, a class folder without images or absent from the
/// training split, any other file, a folder that contains itself, tiny-imagenet-200's val.
ImageSet read_image_folder(const std::filesystem::path& folder, const SliceRequest& request);
std::vector<std::string> image_folder_classes(const std::filesystem::path& folder, const std::string& split);
/// Training first.
std::vector<std::string> image_folder_splits(const std::filesystem::path& folder);
/// The same for flat folders of images: by name alone.
std::vector<std::string> splits_by_name(const std::filesystem::path& folder);
/// train, training, seg_train, ..., in any letter case; of evaluation val, valid, dev, test, testing, eval, ...
bool is_training_split(const std::string& folder);
bool is_split_name(const std::string& folder);

/// `folder`/images/SPLIT/.../NAME.jpg (.jpeg, .png) and `folder`/masks/SPLIT/.../NAME.png, whose pixels are labels as
/// SliceRequest::masks says; classes.txt names the classes. InputError: no such split, an image without a mask, a mask
/// without an image, or two images with one name.
ImageSet read_image_masks(const std::filesystem::path& folder, const SliceRequest& request);

/// The unpacked tiny-imagenet-200: wnids.txt, train/WNID/images/*.JPEG ("train"), val/images/*.JPEG with
/// val/val_annotations.txt ("val"). Labels are positions in the sorted wnids, or in the order of SliceRequest::numbers;
/// test has none and is refused.
ImageSet read_tiny_imagenet(const std::filesystem::path& folder, const SliceRequest& request);
bool has_tiny_imagenet(const std::filesystem::path& folder);

/// A flat folder of images, `folder`/SPLIT or else `folder` itself (or, where that lacks them, its folder "images" or
/// its only folder), and a file of labels, `folder`/`labels`: lines "file label", separated by spaces, tabs or a comma,
/// each perhaps in quotes, or one label per line for the images in byte order. With commas, a first line of two column
/// names is skipped. What labels mean: read_labels() in experiments/lab/data/label_reading.h. They count the file of
/// SliceRequest::numbers, else classes.txt, else SliceRequest::class_names; without any of these the labels are the
/// names. InputError names the line: a file listed twice or outside the folder, an invalid label, an image without a
/// label, more labels than images.
ImageSet read_image_list(const std::filesystem::path& folder, const std::string& labels, const SliceRequest& request);
/// Whether one of the first two lines of `file` names an image and its label.
bool names_images(const std::filesystem::path& file);
std::vector<std::string> image_list_classes(const std::filesystem::path& folder, const std::string& labels,
                                            const LabelNumbers& numbers);

/// What normlab knows of a layout, besides its properties (LayoutTraits).
struct LayoutRow {
  DatasetLayout layout;
  /// What a folder of this layout holds, for errors; null if that depends on the data set.
  const char* expected = nullptr;
  std::string (*expected_of)(const DatasetConfig& config) = nullptr;
  /// The folder of the files, `folder` or one below it; none if they are not there.
  std::optional<std::filesystem::path> (*find)(const std::filesystem::path& folder, const DatasetConfig& config);
  /// Training first.
  std::vector<std::string> (*splits)(const std::filesystem::path& folder);
  /// Of the training slice of `config`; opens no image.
  std::vector<std::string> (*classes)(const DatasetConfig& config, const std::filesystem::path& folder);
  ImageSet (*read)(const DatasetConfig& config, const std::filesystem::path& folder, const std::string& shard_names,
                   const SliceRequest& request);
  bool recognised = false;  // find() tells the layout from all others
};
extern const LayoutRow kWebdatasetLayout, kCifarLayout, kIdxLayout, kTinyImagenetLayout, kImageFolderLayout,
    kImageListLayout, kImageMasksLayout;
/// In the order in which layouts are recognised.
inline constexpr const LayoutRow* kLayouts[] = {&kWebdatasetLayout,   &kCifarLayout,       &kIdxLayout,
                                                &kTinyImagenetLayout, &kImageFolderLayout, &kImageListLayout,
                                                &kImageMasksLayout};

/// LayoutRow::find of a layout without marks of its own, splits of one with two, and classes of one that lists them,
/// perhaps with equal names.
std::optional<std::filesystem::path> find_folder(const std::filesystem::path& folder, const DatasetConfig& config);
std::vector<std::string> train_and_test(const std::filesystem::path& folder);
std::vector<std::string> listed_classes(const DatasetConfig& config, const std::filesystem::path& folder);
/// The same splits, those of training first.
std::vector<std::string> training_first(std::vector<std::string> splits);

}  // namespace normlab
