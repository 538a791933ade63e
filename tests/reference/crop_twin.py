"""Prints means and deviations of inception crop boxes as torchvision and TensorFlow draw them, for the comparison in
tests/lab/data/crop_test.cpp.

    python tests/reference/crop_twin.py [--boxes 200000]

torchvision's boxes come from RandomResizedCrop.get_params. TensorFlow's come from a reimplementation in float32 of
sample_distorted_bounding_box without object boxes (image_ops, CPU). One line per case: dialect, image, ranges, then
mean and deviation of height, width, top and left, and the share of whole images."""

import argparse

import numpy as np
import torch
from torchvision.transforms import RandomResizedCrop

CASES = [
    (375, 500, (0.05, 1.0), (3 / 4, 4 / 3)),
    (500, 333, (0.08, 1.0), (3 / 4, 4 / 3)),
    (32, 32, (0.08, 1.0), (3 / 4, 4 / 3)),
    (40, 100, (0.3, 1.0), (3 / 4, 4 / 3)),
    (128, 128, (0.8, 1.0), (0.75, 1.33)),
]


def tensorflow_box(rng, height, width, area, aspect):
    f = np.float32
    for _ in range(100):
        ratio = f(rng.random(dtype=np.float32) * f(aspect[1] - aspect[0]) + f(aspect[0]))
        low, high = f(area[0]) * f(width) * f(height), f(area[1]) * f(width) * f(height)

        def wide(rows):
            return int(np.rint(f(rows) * ratio))

        h, top = int(np.rint(np.sqrt(low / ratio))), int(np.rint(np.sqrt(high / ratio)))
        if wide(top) > width:
            top = int((width + 0.5 - 1e-7) / ratio)
            top -= wide(top) > width
        top = min(top, height)
        h = min(h, top)
        if h < top:
            h += int(rng.integers(0, top - h + 1))
        if h * wide(h) < low:
            h += 1
        if h * wide(h) > high:
            h -= 1
        w = wide(h)
        if not (low <= h * w <= high) or w > width or h > height or w < 1 or h < 1:
            continue
        y = int(rng.integers(0, height - h)) if h < height else 0
        x = int(rng.integers(0, width - w)) if w < width else 0
        return y, x, h, w
    return 0, 0, height, width


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--boxes", type=int, default=200000)
    count = parser.parse_args().boxes
    torch.manual_seed(1)
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    for height, width, area, aspect in CASES:
        image = torch.empty(1, height, width)
        draw = {
            "torchvision": lambda: RandomResizedCrop.get_params(image, list(area), list(aspect)),
            "tensorflow": lambda: tensorflow_box(rng, height, width, area, aspect),
        }
        for dialect, box in draw.items():
            boxes = np.array([box() for _ in range(count)], np.float64)[:, [2, 3, 0, 1]]
            whole = np.mean((boxes[:, 0] == height) & (boxes[:, 1] == width))
            numbers = [f"{v:.5g}" for pair in zip(boxes.mean(0), boxes.std(0)) for v in pair]
            print(dialect, height, width, area, aspect, ", ".join(numbers), f"{whole:.5g}", flush=True)


main()
