"""Checks segmentation networks against PyTorch: same weights, same images, same losses, mIoU and masks.

Writes images of several sizes with masks, trains two small networks on them with normlab, loads their weights in
PyTorch, and evaluates them there as Segmenter does: shorter side resized, windows averaged, logits resized to the
image. Also repeats the loss of a first training step. Exits 1 if a metric differs by more than --tolerance, or a pixel
is predicted otherwise although its two best logits differ by more than that.

    pip install torch numpy pillow safetensors
    python tests/reference/segment_twin.py build/normlab
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file

MEAN, STD = [0.4, 0.5, 0.6], [0.25, 0.3, 0.2]
SIDE, PATCH, WIDTH, HEADS, DEPTH, CLASSES = 32, 8, 24, 3, 2, 5
RESIZED, STRIDE, IGNORED = 40, 20, 255
SIZES = [(20, 20), (20, 33), (27, 20), (80, 80), (80, 102), (118, 80)]
NETWORKS = {
    "token": {"pool": "token", "pos_embed_class": True, "placement": {"base": "pre_pre", "final": "none"}},
    "dpn": {"pool": "gap", "placement": "dpn"},
}


def write_images(folder, random):
    (folder / "own").mkdir()
    (folder / "own" / "classes.txt").write_text("\n".join("abcde") + "\n")
    shades = random.integers(0, 256, (CLASSES, 3))
    for split, count in (("train", 16), ("test", 9)):
        for kind in ("images", "masks"):
            (folder / "own" / kind / split).mkdir(parents=True)
        for i in range(count):
            # Training images have the network's size, so that no resize comes before the first step's loss.
            # Test images are doubled or halved, which is exact in float, too.
            height, width = (SIDE, SIDE) if split == "train" else SIZES[i % len(SIZES)]
            labels = np.kron(random.integers(0, CLASSES, (12, 12)), np.ones((10, 10), int))[:height, :width]
            image = np.clip(shades[labels] + random.normal(0, 30, (height, width, 3)), 0, 255).astype(np.uint8)
            labels = np.where(random.random((height, width)) < 0.1, IGNORED, labels).astype(np.uint8)
            Image.fromarray(image).save(folder / "own" / "images" / split / f"{i:02}.png")
            Image.fromarray(labels).save(folder / "own" / "masks" / split / f"{i:02}.png")


def descriptor(model, steps):
    return {
        "about": "a small segmentation network for a comparison with PyTorch",
        "dataset": {"name": "own", "layout": "image_masks", "masks": "classes", "mean": MEAN, "std": STD},
        "model": {"task": "segment", "image_size": SIDE, "patch_size": PATCH, "embed_dim": WIDTH, "depth": DEPTH,
                  "num_heads": HEADS, **model},
        "train": {"steps": steps, "batch_size": 16, "optimizer": {"name": "adamw", "lr": 3e-3}, "eval_every_epochs": 1,
                  "schedule": {"name": "constant"}},
        "eval": {"segment": {"resize_to": RESIZED, "stride": STRIDE}},
    }


def run(args, folder, name, steps):
    (folder / f"{name}.json").write_text(json.dumps(descriptor(NETWORKS[name.split("-")[0]], steps)))
    out = folder / f"results-{name}"
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([args.normlab, "run", folder / f"{name}.json", "--data", folder, "--out", out, "--workers", "1"], **quiet)
    (trial,) = (out / "trials").iterdir()
    subprocess.run([args.normlab, "eval", trial.name, "--out", out, "--data-root", folder, "--masks", folder / f"masks-{name}"],
                   **quiet)
    metrics = [json.loads(line) for line in (trial / "attempt-1" / "metrics.jsonl").read_text().splitlines()]
    return load_file(trial / "attempt-1" / "checkpoint.safetensors"), metrics


def loss_of_last_step(lines):
    """From the means over all steps so far, of which there are at most 50."""
    before, last = (line["step"] * line["train/loss"] for line in lines[-2:])
    assert lines[-2]["step"] + 1 == lines[-1]["step"] <= 50
    return last - before


def layer_norm(w, name, x):
    return F.layer_norm(x, x.shape[-1:], w[name + ".gamma"], w[name + ".beta"], 1e-6) if name + ".gamma" in w else x


def dense(w, name, x):
    return F.linear(x, w[name + ".weight"], w[name + ".bias"])


def network(w, images):
    """images [B, SIDE, SIDE, 3] to the logits of the patches [B, classes, rows, columns]."""
    batch, grid = len(images), SIDE // PATCH
    x = images.reshape(batch, grid, PATCH, grid, PATCH, 3).permute(0, 1, 3, 2, 4, 5).reshape(batch, grid * grid, -1)
    x = layer_norm(w, "stem.patch_out", dense(w, "patch_embed", layer_norm(w, "stem.patch_in", x)))
    if "cls_token" in w:
        x = torch.cat([w["cls_token"].expand(batch, -1, -1), x], 1)
    x = x + w["pos_embed"]
    for block in range(DEPTH):
        at = f"blocks.{block}."
        h = layer_norm(w, at + "attn.pre", x)
        q, k, v = (dense(w, at + "attn." + name, h).reshape(batch, -1, HEADS, WIDTH // HEADS).transpose(1, 2) for name in "qkv")
        h = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + dense(w, at + "attn.proj", h)
        h = F.gelu(dense(w, at + "mlp.fc1", layer_norm(w, at + "mlp.pre", x)))
        x = x + dense(w, at + "mlp.fc2", h)
    x = layer_norm(w, "final", x)
    x = x[:, 1:] if "cls_token" in w else x
    return dense(w, "head", x).reshape(batch, grid, grid, CLASSES).permute(0, 3, 1, 2)


def full(logits, size):
    return F.interpolate(logits, size, mode="bilinear", align_corners=False)


def starts(size):
    at = [i for i in range(0, size, STRIDE) if i + SIDE < size]
    return at + [size - SIDE]


def normalised(image):
    return (image / 255 - torch.tensor(MEAN, dtype=torch.float64)) / torch.tensor(STD, dtype=torch.float64)


def evaluate(w, folder):
    """mIoU, accuracy, loss, and the logits of every image."""
    matrix, loss, kept = np.zeros((CLASSES, CLASSES), int), 0.0, []
    for path in sorted((folder / "own" / "images" / "test").iterdir()):
        image = torch.from_numpy(np.array(Image.open(path))).double()
        labels = torch.from_numpy(np.array(Image.open(folder / "own" / "masks" / "test" / path.name))).long()
        stored = image.shape[:2]
        size = [int(side * RESIZED / min(stored) + 0.5) for side in stored]
        image = torch.floor(full(image.permute(2, 0, 1)[None], size))[0].permute(1, 2, 0)
        image, total, count = normalised(image), torch.zeros(1, CLASSES, *size, dtype=torch.float64), torch.zeros(size)
        for top in starts(size[0]):
            for left in starts(size[1]):
                window = image[None, top:top + SIDE, left:left + SIDE]
                total[:, :, top:top + SIDE, left:left + SIDE] += full(network(w, window), (SIDE, SIDE))
                count[top:top + SIDE, left:left + SIDE] += 1
        logits = full(total / count, stored)
        kept.append(logits[0])
        loss += F.cross_entropy(logits, labels[None], ignore_index=IGNORED, reduction="sum").item()
        counts = labels != IGNORED
        np.add.at(matrix, (labels[counts].numpy(), logits[0].argmax(0)[counts].numpy()), 1)
    union = matrix.sum(0) + matrix.sum(1) - matrix.diagonal()
    miou = np.mean(matrix.diagonal()[union > 0] / union[union > 0])
    return {"eval/miou": miou, "eval/pixel_accuracy": matrix.trace() / matrix.sum(), "eval/loss": loss / matrix.sum()}, kept


def other_pixels(kept, folder, name, tolerance):
    """Pixels that normlab predicts otherwise, although the best logits are not close."""
    others = 0
    for logits, path in zip(kept, sorted((folder / f"masks-{name}").iterdir()), strict=True):
        best = logits.topk(2, 0)
        ours = torch.from_numpy(np.array(Image.open(path))).long()
        others += ((ours != best.indices[0]) & (best.values[0] - best.values[1] > tolerance)).sum().item()
    return others


def first_loss(w, folder):
    """The loss of the whole training split, which is one batch, without augmentation."""
    paths = sorted((folder / "own" / "images" / "train").iterdir())
    images = torch.stack([normalised(torch.from_numpy(np.array(Image.open(path))).double()) for path in paths])
    labels = torch.stack([torch.from_numpy(np.array(Image.open(folder / "own" / "masks" / "train" / path.name))).long()
                          for path in paths])
    return F.cross_entropy(full(network(w, images), (SIDE, SIDE)), labels, ignore_index=IGNORED).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("normlab", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    args = parser.parse_args()
    args.normlab = args.normlab.resolve()
    failed = False
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        write_images(folder, np.random.default_rng(0))
        for name in NETWORKS:
            weights, lines = run(args, folder, name, args.steps)
            w = {key: value.double() for key, value in weights.items() if value.is_floating_point()}
            theirs, kept = evaluate(w, folder)
            for metric, value in theirs.items():
                difference = abs(value - lines[-1][metric])
                print(f"{name}: {metric} {value:.6f}, difference {difference:.1e}")
                failed |= not difference < args.tolerance
            others = other_pixels(kept, folder, name, args.tolerance)
            print(f"{name}: {others} pixels differ")
            failed |= others > 0
            # The next step's loss is that of these weights.
            _, longer = run(args, folder, f"{name}-longer", args.steps + 1)
            last = loss_of_last_step(longer)
            difference = abs(first_loss(w, folder) - last)
            print(f"{name}: training loss {last:.6f}, difference {difference:.1e}")
            failed |= not difference < args.tolerance
    return failed


if __name__ == "__main__":
    sys.exit(main())
