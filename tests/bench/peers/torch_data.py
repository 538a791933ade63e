"""From photographs to a network's input by Pillow and torchvision, stage by stage, on one core.

    pip install torch torchvision
    python tests/bench/peers/torch_data.py FOLDER --seconds 2 --format json

The stages of `normlab bench data`: files in memory, images per second of this process's CPU time, median over passes
through all files.
"""
import argparse
import io
import json
import pathlib
import statistics
import time

import PIL
import torch
import torchvision
from PIL import Image, features
from torchvision import transforms

from measure import cpu_seconds

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("--size", type=int, default=224)
    options.add_argument("--seconds", type=float, default=2, help="of each stage")
    options.add_argument("--format", choices=("text", "json"), default="text")
    args = options.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    paths = sorted(p for p in args.folder.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg", ".png"))[:1000]
    files = [path.read_bytes() for path in paths]

    def decode(data):
        return Image.open(io.BytesIO(data)).convert("RGB")

    train = transforms.Compose([
        transforms.RandomResizedCrop(args.size, scale=(0.05, 1.0)), transforms.RandomHorizontalFlip(),
        transforms.RandAugment(2, 10), transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
    evaluate = transforms.Compose([
        transforms.Resize(int(args.size / 0.875)), transforms.CenterCrop(args.size), transforms.ToTensor(),
        transforms.Normalize(MEAN, STD)])
    stages = {"decode": decode, "training chain": lambda data: train(decode(data)),
              "evaluation chain": lambda data: evaluate(decode(data))}
    result = {"files": len(files), "size": args.size, "pillow": PIL.__version__,
              "libjpeg_turbo": features.version("libjpeg_turbo"), "torchvision": torchvision.__version__, "stages": []}
    before, begin = cpu_seconds(), time.perf_counter()
    for name, work in stages.items():
        for data in files[:32]:
            work(data)
        passes = []
        while len(passes) < 3 or sum(passes) < args.seconds:
            start = time.process_time()
            for data in files:
                work(data)
            passes.append(time.process_time() - start)
        result["stages"].append(
            {"stage": name, "images_per_second": round(len(files) / statistics.median(passes), 1)})
    after, wall = cpu_seconds(), time.perf_counter() - begin
    result["load"] = round(max(0.0, (after[0] - before[0]) - (after[1] - before[1])) / wall, 2) if before else None
    if args.format == "json":
        print(json.dumps(result))
    else:
        print(f"{len(files)} files; Pillow {result['pillow']}, torchvision {result['torchvision']}")
        for stage in result["stages"]:
            print(f"{stage['stage']:34}{stage['images_per_second']:10.0f}")


if __name__ == "__main__":
    main()
