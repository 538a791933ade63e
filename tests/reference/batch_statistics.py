"""Checks that the images in normlab's training are distributed as torchvision's.

Takes the batches of experiments/cifar_augmented.json that were hardly mixed, and as many images from torchvision's
transforms. Compares the means of per-image statistics: brightness, contrast, gradients, black and white pixels, black
borders, levels. z is the difference over its standard error; of about twenty numbers, one may exceed 2.

    pip install torch torchvision numpy pillow
    NORMLAB_BATCHES_OUT=batches NORMLAB_BATCHES_OF=experiments/cifar_augmented.json NORMLAB_DATA=data \\
        build/tests/run -tc="twin: export all batches of a trial"
    python tests/reference/batch_statistics.py batches --data data/cifar10
"""
import argparse
from pathlib import Path

import numpy as np
import torch
from augmented_twin import BATCH
from cifar_twin import load_split
from PIL import Image
from torchvision import transforms

HARDLY = 5e-4  # share of the partner image


def features(images):
    """Name -> one number per image, for images [n, 32, 32, 3] in 0 to 255."""
    black = (np.abs(images) < 0.5).all(3)
    borders = {"top": black[:, 0], "bottom": black[:, -1], "left": black[:, :, 0], "right": black[:, :, -1]}
    return {
        "mean": images.mean((1, 2, 3)),
        "deviation": images.std((1, 2, 3)),
        "least": images.min((1, 2, 3)),
        "largest": images.max((1, 2, 3)),
        "down": np.abs(np.diff(images, axis=1)).mean((1, 2, 3)),
        "across": np.abs(np.diff(images, axis=2)).mean((1, 2, 3)),
        "saturation": (images.max(3) - images.min(3)).mean((1, 2)),
        "levels": np.array([len(np.unique(np.round(image))) for image in images]),
        "black": black.mean((1, 2)),
        "white": (images > 254.5).all(3).mean((1, 2)),
        "left - right": images[:, :, :16].mean((1, 2, 3)) - images[:, :, 16:].mean((1, 2, 3)),
        "top - bottom": images[:, :16].mean((1, 2, 3)) - images[:, 16:].mean((1, 2, 3)),
    } | {f"black {side}": border.mean(1) for side, border in borders.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="NORMLAB_BATCHES_OUT")
    parser.add_argument("--data", type=Path, required=True, help="folder with train-*.tar")
    parser.add_argument("--seed", type=int, default=0, help="of torchvision's images")
    parser.add_argument("--magnitude", type=int, default=5, help="of RandAugment")
    parser.add_argument("--mean", type=float, nargs=3, help="dataset.mean, if the descriptor has it")
    parser.add_argument("--std", type=float, nargs=3, help="dataset.std")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    stored = load_split(args.data, "train")[0].numpy()
    pixels = stored.reshape(-1, 3)
    mean, deviation = pixels.mean(0, dtype=np.float64), pixels.std(0, dtype=np.float64)
    if args.mean:
        mean, deviation = np.array(args.mean) * 255, np.array(args.std) * 255
    images = np.memmap(args.folder / "images.f32", np.float32, "r").reshape(-1, BATCH, 32, 32, 3)
    targets = np.fromfile(args.folder / "targets.f32", np.float32).reshape(-1, BATCH, 10)
    if not len(targets):  # no image is mixed
        targets = np.zeros((len(images), 1, 1), np.float32)
    unmixed = [i for i, t in enumerate(targets) if not ((t > HARDLY) & (t < 1 - HARDLY)).any()]
    ours = np.concatenate([images[i] for i in unmixed]) * deviation + mean
    augment = transforms.Compose([transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(),
                                  transforms.RandAugment(2, args.magnitude)])
    chosen = torch.randint(len(stored), (len(ours),)).tolist()
    theirs = np.stack([np.asarray(augment(Image.fromarray(stored[i]))) for i in chosen]).astype(np.float64)
    print(f"{len(ours)} images of {len(unmixed)} batches\n{'':>14} {'normlab':>10} {'torchvision':>11} {'z':>6}")
    there = features(theirs)
    for name, a in features(ours).items():
        b = there[name]
        z = (a.mean() - b.mean()) / np.sqrt(a.var() / len(a) + b.var() / len(b))
        print(f"{name:>14} {a.mean():10.4f} {b.mean():11.4f} {z:6.2f}")


if __name__ == "__main__":
    main()
