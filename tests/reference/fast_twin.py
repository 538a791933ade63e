"""The recipe cifar_fast in PyTorch: timm's VisionTransformer, torch.optim.Muon, autocast to bf16.

Patch 4, width 128, depth 6, 4 heads; Muon at 4e-3 on the blocks' matrices, AdamW at 2e-3 on the rest; 15 epochs of 390
batches of 128, 300 steps of warm-up, then a line to zero; label smoothing 0.1; crops after 4 pixels of padding, flips.
Unlike ours, q, k and v are one matrix to Muon. Data, augmentation and options are those of cifar_twin.py.

    python tests/reference/fast_twin.py --data data/cifar10 --seed 0 1 2 --threads 1 --out results.json
    python tests/reference/fast_twin.py --data data/cifar10 --threads 1 --steps 120    # images a second alone
"""
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from cifar_twin import PADDING, Pixels, load_split, make_model, run_seeds

EPOCHS, BATCH, WARMUP, MUON_RATE, ADAMW_RATE, DECAY, SMOOTHING = 15, 128, 300, 4e-3, 2e-3, 0.05, 0.1


def make_optimizers(model):
    matrices = [p for name, p in model.named_parameters() if name.startswith("blocks.") and p.ndim == 2]
    others = [p for name, p in model.named_parameters() if not (name.startswith("blocks.") and p.ndim == 2)]
    return [(torch.optim.Muon(matrices, lr=MUON_RATE, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw"), MUON_RATE),
            (torch.optim.AdamW(others, lr=ADAMW_RATE, weight_decay=0.0, fused=True), ADAMW_RATE)]


def train(seed, args):
    train_images, train_labels = load_split(args.data, "train")
    test_images, test_labels = load_split(args.data, "test")
    whole = train_images.numpy().reshape(-1, 3)
    mean = torch.from_numpy(whole.mean(0, dtype=np.float64) / 255).float()
    std = torch.from_numpy(whole.std(0, dtype=np.float64) / 255).float()
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = make_model(embed_dim=128, depth=6, num_heads=4)
    optimizers = make_optimizers(model)
    forward = torch.compile(model) if args.compile else model
    pixels = Pixels(train_images, mean, std, PADDING)
    per_epoch = len(train_labels) // BATCH
    total = EPOCHS * per_epoch
    stop = min(args.steps or total, total)
    losses, started = [], time.perf_counter()
    for step in range(stop):
        if step % per_epoch == 0:
            order = torch.randperm(len(train_labels), generator=generator)
        if step == min(20, stop - 1):  # the first steps warm caches and compilers
            steady, timed = time.perf_counter(), stop - step
        first = step % per_epoch * BATCH
        indices = order[first:first + BATCH]
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(forward(pixels.augmented(indices, generator)).float(), train_labels[indices],
                                   label_smoothing=SMOOTHING)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        of_peak = (step + 1) / (WARMUP + 1) if step < WARMUP else 1 - (step - WARMUP) / (total - WARMUP)
        for optimizer, rate in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * of_peak
            optimizer.step()
            optimizer.zero_grad()
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


if __name__ == "__main__":
    run_seeds(train, __doc__, "--compile", "torch.compile", threads=1)
