"""The CIFAR-10 recipe in PyTorch: timm's VisionTransformer, trained as in the descriptor.

Patch 4, width 64, depth 4, 2 heads, mean over tokens after the final LayerNorm; Big Vision's initial values; 10 epochs of
390 batches of 128; AdamW 1e-3, weight decay 0.05 on matrices, one epoch of warm-up, then a cosine; crops after 4 pixels
of padding, flips; gradient norm clipped at 1. One line of JSON per seed goes to --out; existing seeds are skipped.

    pip install torch timm numpy pillow
    python tests/reference/cifar_twin.py --data data/cifar10 --seed 0 1 2 3 4 --threads 2 --out results.json

PyTorch's MKL uses its AVX-512 kernels only on Intel CPUs. On AMD:
    echo 'int mkl_serv_intel_cpu_true(void) { return 1; }' > intel.c && cc -shared -fPIC intel.c -o libintel.so
    LD_PRELOAD=./libintel.so python tests/reference/cifar_twin.py ...
Seeds can run concurrently, one thread each, with the same --out. With two threads on shared cores, set
OMP_WAIT_POLICY=passive; otherwise OpenMP's threads spin, and a step takes many times as long.
"""
import argparse
import hashlib
import io
import json
import math
import os
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import nn

EPOCHS, BATCH, RATE, DECAY, PADDING = 10, 128, 1e-3, 0.05, 4


def load_split(folder, split):
    """Images [n, 32, 32, 3] uint8 and labels [n] of all shards SPLIT-*.tar, decoded once and kept in the temporary folder."""
    shards = sorted(folder.glob(f"{split}-*.tar"))
    if not shards:
        sys.exit(f"{folder}: no {split}-*.tar")
    cache = Path(tempfile.gettempdir()) / f"cifar_twin-{os.getuid()}-{folder.resolve().as_posix().replace('/', '_')}-{split}.npz"
    if cache.exists() and cache.stat().st_mtime > max(shard.stat().st_mtime for shard in shards):
        with np.load(cache) as arrays:
            return torch.from_numpy(arrays["images"]), torch.from_numpy(arrays["labels"])
    from PIL import Image
    images, labels = [], []
    for shard in shards:
        samples = {}
        with tarfile.open(shard) as tar:
            for member in tar:
                key, _, kind = member.name.rpartition(".")
                samples.setdefault(key, {})[kind] = tar.extractfile(member).read()
        for sample in samples.values():
            labels.append(int(sample.pop("cls")))
            picture = next(sample[kind] for kind in ("png", "jpg", "jpeg", "webp") if kind in sample)
            images.append(np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")))
    images, labels = np.stack(images), np.array(labels)
    part = cache.with_suffix(f".{os.getpid()}.npz")
    np.savez(part, images=images, labels=labels)
    part.replace(cache)
    return torch.from_numpy(images), torch.from_numpy(labels)


def make_model(**sizes):
    model = VisionTransformer(img_size=32, patch_size=4, num_classes=10, mlp_ratio=4, global_pool="avg", class_token=False, fc_norm=False,
                              norm_layer=lambda n, **kw: nn.LayerNorm(n, eps=1e-6, **kw), **sizes)
    with torch.no_grad():
        patches = model.patch_embed.proj
        std = math.sqrt(1 / patches.weight[0].numel()) / 0.87962566
        nn.init.trunc_normal_(patches.weight, std=std, a=-2 * std, b=2 * std)
        nn.init.zeros_(patches.bias)
        nn.init.normal_(model.pos_embed, std=1 / math.sqrt(model.embed_dim))
        for block in model.blocks:
            for weight in (*block.attn.qkv.weight.chunk(3), block.attn.proj.weight, block.mlp.fc1.weight, block.mlp.fc2.weight):
                nn.init.xavier_uniform_(weight)
            nn.init.zeros_(block.attn.qkv.bias)
            nn.init.zeros_(block.attn.proj.bias)
            nn.init.normal_(block.mlp.fc1.bias, std=1e-6)
            nn.init.normal_(block.mlp.fc2.bias, std=1e-6)
        nn.init.zeros_(model.head.weight)
        nn.init.zeros_(model.head.bias)
    return model


def learning_rate(step, total, warmup):
    if step < warmup:
        return RATE * (step + 1) / (warmup + 1)
    return RATE * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


def make_optimizer(model):
    decayed = [p for name, p in model.named_parameters() if p.ndim > 1 and name != "pos_embed"]
    others = [p for name, p in model.named_parameters() if p.ndim <= 1 or name == "pos_embed"]
    return torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
                             lr=RATE, betas=(0.9, 0.999), eps=1e-8, fused=True)


def update(model, optimizer, loss, rate):
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()


class Pixels:
    """Network input from images as channels-first bytes."""

    def __init__(self, images, mean, std, padding):
        self.bytes = F.pad(images.permute(0, 3, 1, 2), [padding] * 4)
        self.mean, self.std = mean.view(1, 3, 1, 1), std.view(1, 3, 1, 1)
        self.span, self.offsets = torch.arange(32), 2 * padding + 1

    def normalised(self, batch):
        return (batch.float() / 255 - self.mean) / self.std

    def augmented(self, indices, generator):
        n = len(indices)
        row, column = (torch.randint(self.offsets, (n, 1), generator=generator) + self.span for _ in range(2))
        flip = torch.rand(n, 1, generator=generator) < 0.5
        column = torch.where(flip, column.flip(1), column)
        image, channel = indices.view(n, 1, 1, 1), torch.arange(3).view(1, 3, 1, 1)
        return self.normalised(self.bytes[image, channel, row.view(n, 1, 32, 1), column.view(n, 1, 1, 32)])


def recipe():
    """The model, its loss on a batch, and an update, as train() repeats them."""
    model = make_model(embed_dim=64, depth=4, num_heads=2)
    optimizer = make_optimizer(model)

    def step(loss, number, total, per_epoch):
        update(model, optimizer, loss, learning_rate(number, total, per_epoch))

    return model, lambda forward, images, labels: F.cross_entropy(forward(images), labels), step


def train(seed, args, recipe=recipe, epochs=EPOCHS):
    train_images, train_labels = load_split(args.data, "train")
    test_images, test_labels = load_split(args.data, "test")
    whole = train_images.numpy().reshape(-1, 3)
    mean = torch.from_numpy(whole.mean(0, dtype=np.float64) / 255).float()
    std = torch.from_numpy(whole.std(0, dtype=np.float64) / 255).float()
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model, loss_of, update_with = recipe()
    forward = torch.compile(model) if args.compile else model
    pixels = Pixels(train_images, mean, std, PADDING)
    per_epoch = len(train_labels) // BATCH
    total = epochs * per_epoch
    stop = min(args.steps or total, total)
    losses, started = [], time.perf_counter()
    for step in range(stop):
        if step % per_epoch == 0:
            order = torch.randperm(len(train_labels), generator=generator)
        if step == min(20, stop - 1):  # the first steps warm caches and compilers
            steady, timed = time.perf_counter(), stop - step
        first = step % per_epoch * BATCH
        indices = order[first:first + BATCH]
        loss = loss_of(forward, pixels.augmented(indices, generator), train_labels[indices])
        update_with(loss, step, total, per_epoch)
        losses.append(loss.detach())
        if (step + 1) % per_epoch == 0 or step + 1 == stop:
            print(f"seed {seed} step {step + 1}/{total} loss {torch.stack(losses[-100:]).mean():.4f}", file=sys.stderr)
    seconds = time.perf_counter() - started
    speed = timed * BATCH / (time.perf_counter() - steady)
    model.eval()
    test = Pixels(test_images, mean, std, 0)
    with torch.inference_mode():
        correct = sum((model(test.normalised(images)).argmax(1) == labels).sum().item()
                      for images, labels in zip(test.bytes.split(500), test_labels.split(500)))
    return {"seed": seed, "steps": stop, "test_accuracy": correct / len(test_labels),
            "train_loss": torch.stack(losses[-per_epoch:]).mean().item(), "seconds": round(seconds, 1),
            "images_per_second": round(speed, 1), "threads": args.threads, "torch": torch.__version__}


def sealed(result):
    """One line of results, marked as another program's and sealed as by `normlab export`; normlab ignores it."""
    line = {"schema": 1, "program": f"PyTorch, tests/reference/{Path(sys.argv[0]).name}", **result}
    members = json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return json.dumps({**line, "sha256": hashlib.sha256(members.encode()).hexdigest()})


def run_seeds(train, description, switch, meaning, threads):
    """Calls train(seed, args) for each seed missing in the results file; `switch` is an additional option."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with train-*.tar and test-*.tar")
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    parser.add_argument("--threads", type=int, default=threads)
    parser.add_argument("--out", type=Path, help="results, one JSON object a line, as docs/results/*_twin.jsonl")
    parser.add_argument(switch, action="store_true", help=meaning)
    parser.add_argument("--steps", type=int, help="stop early, for timing; goes to no file")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    done = {json.loads(line)["seed"] for line in args.out.read_text().splitlines()} if args.out and args.out.exists() else set()
    for seed in args.seed:
        if seed in done:
            print(f"seed {seed} is in {args.out}", file=sys.stderr)
            continue
        result = sealed(train(seed, args))
        print(result)
        if args.out and not args.steps:
            with args.out.open("a") as out:
                out.write(result + "\n")


if __name__ == "__main__":
    run_seeds(train, __doc__, "--compile", "torch.compile", threads=2)
