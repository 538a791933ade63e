"""experiments/cifar_augmented.json in PyTorch: timm's VisionTransformer and torchvision's transforms, as pre_pre.

Patch 4, width 128, depth 6, 4 heads, mean over tokens after the final LayerNorm; Big Vision's initial values; drop-path
from 0 to 0.1; 1170 steps of 128 images; RandomCrop(32, padding=4), flip, RandAugment(2, 5) with black fill, mixup with
one lambda of Beta(0.2, 0.2) per batch and the predecessor as partner; AdamW 1e-3, weight decay 0.05 on matrices, half
an epoch of warm-up, then a cosine; gradient norm clipped at 1. One line of JSON per seed goes to --out; existing seeds
are skipped.

    pip install torch torchvision timm numpy pillow
    python tests/reference/augmented_twin.py --data data/cifar10 --seed 0 1 2 --threads 1 --out augmented.json

--bf16 runs forward pass and loss under autocast, PyTorch's mixed precision. For MKL on AMD, see cifar_twin.py.
"""
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from cifar_twin import learning_rate, load_split, make_model, make_optimizer, run_seeds, update
from PIL import Image
from torchvision import transforms

STEPS, PER_EPOCH, WARMUP, BATCH, MIXUP = 1170, 390, 195, 128, 0.2


def mixed(images, labels):
    """One lambda per batch, with the predecessor as partner, as in torchvision's MixUp."""
    share = float(np.random.default_rng(int(torch.randint(2**31, ()))).beta(MIXUP, MIXUP))
    targets = F.one_hot(labels, 10).float()
    return share * images + (1 - share) * images.roll(1, 0), share * targets + (1 - share) * targets.roll(1, 0)


def train(seed, args):
    train_images, train_labels = load_split(args.data, "train")
    test_images, test_labels = load_split(args.data, "test")
    whole = train_images.numpy().reshape(-1, 3)
    normalise = transforms.Normalize(whole.mean(0, dtype=np.float64) / 255, whole.std(0, dtype=np.float64) / 255)
    augment = transforms.Compose([transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(), transforms.RandAugment(2, 5),
                                  transforms.ToTensor(), normalise])
    pictures = [Image.fromarray(image) for image in train_images.numpy()]
    torch.manual_seed(seed)
    model = make_model(embed_dim=128, depth=6, num_heads=4, drop_path_rate=0.1)
    optimizer = make_optimizer(model)
    stop = min(args.steps or STEPS, STEPS)
    losses, started, preparing = [], time.perf_counter(), 0.0
    for step in range(stop):
        if step % PER_EPOCH == 0:
            order = torch.randperm(len(train_labels))
        first = step % PER_EPOCH * BATCH
        indices = order[first:first + BATCH]
        begin = time.perf_counter()
        images, targets = mixed(torch.stack([augment(pictures[i]) for i in indices.tolist()]), train_labels[indices])
        preparing += time.perf_counter() - begin
        with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
            loss = F.cross_entropy(model(images).float(), targets)
        update(model, optimizer, loss, learning_rate(step, STEPS, WARMUP))
        losses.append(loss.detach())
        if (step + 1) % 100 == 0 or step + 1 == stop:
            print(f"seed {seed} step {step + 1}/{STEPS} loss {torch.stack(losses[-100:]).mean():.4f}", file=sys.stderr)
    seconds = time.perf_counter() - started
    model.eval()
    inputs = normalise(test_images.permute(0, 3, 1, 2).float() / 255)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
        correct = sum((model(images).argmax(1) == labels).sum().item() for images, labels in zip(inputs.split(500), test_labels.split(500)))
    return {"seed": seed, "steps": stop, "test_accuracy": correct / len(test_labels), "train_loss": torch.stack(losses[-PER_EPOCH:]).mean().item(),
            "seconds": round(seconds, 1), "images_per_second": round(stop * BATCH / seconds, 1), "preparing_share": round(preparing / seconds, 3),
            "bf16": args.bf16, "threads": args.threads, "torch": torch.__version__}


if __name__ == "__main__":
    run_seeds(train, __doc__, "--bf16", "forward under autocast", threads=1)
