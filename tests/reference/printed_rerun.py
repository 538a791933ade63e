"""Runs a public repository's own training script on the images that normlab trained on.

Its torchvision.datasets.CIFAR10 and FashionMNIST read normlab's folder of the data instead of downloading; nothing else
of it changes. What it prints goes into a descriptor's `printed` block as `rerun`, with the commit in `how`.

    pip install torch torchvision pillow numpy        # and what the script imports
    git clone https://github.com/OWNER/NAME && cd NAME
    python .../tests/reference/printed_rerun.py --data DATA main.py --dataset cifar10 --epochs 200

`--data` holds cifar10/ (WebDataset shards, *.jpg or *.png with *.cls) or fashion_mnist/ (idx files, .gz too).
Newer versions of PyTorch have no `verbose` in schedulers; the scripts' value is dropped there.
"""

import argparse
import gzip
import io
import pathlib
import runpy
import struct
import sys
import tarfile

import numpy
import torch
import torchvision
from PIL import Image


def shards(folder, split):
    """Images and labels of folder/SPLIT-*.tar, in the order of the archives."""
    images, labels = {}, {}
    files = sorted(folder.glob(split + "-*.tar"))
    if not files:
        sys.exit(f"{folder}: no {split}-*.tar")
    for file in files:
        with tarfile.open(file) as archive:
            for member in archive:
                key, _, kind = member.name.partition(".")
                if kind in ("jpg", "png"):
                    images[key] = archive.extractfile(member).read()
                elif kind == "cls":
                    labels[key] = int(archive.extractfile(member).read())
    return [Image.open(io.BytesIO(images[key])).convert("RGB") for key in labels], list(labels.values())


def idx(folder, split):
    """Images and labels of the idx files of MNIST's kind."""

    def values(name):
        found = [path for path in (folder / name, folder / (name + ".gz")) if path.exists()]
        if not found:
            sys.exit(f"{folder}: no {name} or {name}.gz")
        data = (gzip.open if found[0].suffix == ".gz" else open)(found[0], "rb").read()
        shape = struct.unpack(f">{data[3]}I", data[4 : 4 + 4 * data[3]])
        return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * data[3]).reshape(shape)

    stem = "train" if split == "train" else "t10k"
    labels = [int(label) for label in values(f"{stem}-labels-idx1-ubyte")]
    return [Image.fromarray(image, mode="L") for image in values(f"{stem}-images-idx3-ubyte")], labels


def replacement(read):
    class Copy(torch.utils.data.Dataset):
        def __init__(self, root=None, train=True, transform=None, target_transform=None, download=False):
            self.images, self.targets = read("train" if train else "test")
            self.transform, self.target_transform = transform, target_transform

        def __len__(self):
            return len(self.targets)

        def __getitem__(self, index):
            image, target = self.images[index], self.targets[index]
            if self.transform:
                image = self.transform(image)
            return image, self.target_transform(target) if self.target_transform else target

    return Copy


def without_verbose(kind):
    original = kind.__init__

    def made(self, *args, verbose=None, **words):
        original(self, *args, **words)

    kind.__init__ = made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="normlab's folder of the data sets")
    parser.add_argument("--seed", type=int, help="given to torch before the script begins")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    torchvision.datasets.CIFAR10 = replacement(lambda split: shards(options.data / "cifar10", split))
    torchvision.datasets.FashionMNIST = replacement(lambda split: idx(options.data / "fashion_mnist", split))
    for name in ("LinearLR", "CosineAnnealingLR", "MultiStepLR"):
        without_verbose(getattr(torch.optim.lr_scheduler, name))
    if options.seed is not None:
        torch.manual_seed(options.seed)
    sys.argv = [options.script, *options.arguments]
    sys.path.insert(0, str(pathlib.Path(options.script).resolve().parent))
    runpy.run_path(options.script, run_name="__main__")


if __name__ == "__main__":
    main()
