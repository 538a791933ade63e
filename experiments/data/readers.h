// The datasets on disk. Each reader sorts the samples of a split by key, takes the slice and decodes that alone. The
// names of the classes, label 0 first, can be had without an image being opened.
#pragma once

#include <filesystem>
#include <string>

#include "experiments/data/image_index.h"

namespace normlab {

/// `folder` holds classes.txt (one name a line) and the split's shards: those that `shard_names` stands for
/// (experiments/data/shard_names.h), or, where it is empty, "train-000000.tar", "train-000001.tar", ... (or .tar.gz),
/// without a gap. In a shard consecutive members "key.jpg" (.jpeg, .png) and "key.cls" (a label in decimal) are one
/// sample, whose key is "shard/key". Members .json, .txt and .npy belong to a sample and are not read; "__name__" is
/// metadata; all else is an error. Only labels are read now and images by their place in the shard; those of a .tar.gz
/// are held in memory, up to 4 GiB. Errors: InputError with shard, member and, for the archive itself, byte offset. The
/// same for any number of threads.
ImageSet read_webdataset(const std::filesystem::path& folder, const std::string& shard_names,
                         const SliceRequest& request);
std::vector<std::string> webdataset_classes(const std::filesystem::path& folder);
/// Splits of which `folder` holds a first shard, in byte order.
std::vector<std::string> webdataset_splits(const std::filesystem::path& folder);

/// CIFAR's binary files. CIFAR-10: data_batch_1.bin to data_batch_5.bin ("train"), test_batch.bin ("test"),
/// batches.meta.txt; records of a label and three 32x32 planes. CIFAR-100: train.bin, test.bin, fine_label_names.txt; a
/// coarse label, which is not used, stands before the fine one. Keys are "data_batch_1/000042". InputError names file,
/// record and byte offset.
ImageSet read_cifar_binary(const std::filesystem::path& folder, const SliceRequest& request);
std::vector<std::string> cifar_classes(const std::filesystem::path& folder);
/// Whether `folder` holds one of the files of CIFAR-10, or of CIFAR-100.
bool has_cifar10_binary(const std::filesystem::path& folder);
bool has_cifar100_binary(const std::filesystem::path& folder);

/// MNIST and its kin: train-images-idx3-ubyte and train-labels-idx1-ubyte ("train"), t10k-* ("test"); also named
/// train-images.idx3-ubyte, also with .gz. One channel. Class names are those of classes.txt, where it is there, else
/// those of `dataset` where it is mnist, fashion_mnist or kmnist. Keys are "train/000042". InputError names file and
/// byte.
ImageSet read_idx(const std::filesystem::path& folder, const SliceRequest& request);
std::vector<std::string> idx_classes(const std::filesystem::path& folder, const std::string& dataset);
/// True where `folder` holds images of either split.
bool has_idx(const std::filesystem::path& folder);

/// `folder`/SPLIT/CLASS/.../NAME.jpg (.jpeg, .png, in any case): a label is the place of CLASS among the class folders
/// in byte order, a key what follows SPLIT. Where `folder` has no folder train, val or test, its own folders are the
/// classes and "train" its only split. Links are followed; names that begin with a dot are passed over. InputError: no
/// such split (with those that are there), a class folder without images or one that the training split has not, any
/// other file, a folder that contains itself, tiny-imagenet-200's val.
ImageSet read_image_folder(const std::filesystem::path& folder, const SliceRequest& request);
std::vector<std::string> image_folder_classes(const std::filesystem::path& folder, const std::string& split);
/// The splits that `folder` has.
std::vector<std::string> image_folder_splits(const std::filesystem::path& folder);

/// tiny-imagenet-200 as it is unpacked: wnids.txt, train/WNID/images/*.JPEG ("train"), val/images/*.JPEG with
/// val/val_annotations.txt ("val"). Labels are places in the sorted wnids; test has none and is refused.
ImageSet read_tiny_imagenet(const std::filesystem::path& folder, const SliceRequest& request);
std::vector<std::string> tiny_imagenet_classes(const std::filesystem::path& folder);
bool has_tiny_imagenet(const std::filesystem::path& folder);

/// A flat folder of images, `folder`/SPLIT or `folder` itself where that is not there, and a file of labels,
/// `folder`/`labels`: lines "file label" (any number of spaces or tabs between), or one label a line for the images in
/// byte order. A label is a class name of classes.txt or a decimal index from 0; without classes.txt the labels of the
/// file are the names, in byte order. InputError names the line: a file that is listed twice or leaves the folder, a
/// label that is none, an image without a label, more labels than images.
ImageSet read_image_list(const std::filesystem::path& folder, const std::string& labels, const SliceRequest& request);
std::vector<std::string> image_list_classes(const std::filesystem::path& folder, const std::string& labels);

/// The lines of a text file of class names, without blank lines at the end. InputError: none, twice the same, a blank
/// between.
std::vector<std::string> read_class_names(const std::filesystem::path& file);

}  // namespace normlab
