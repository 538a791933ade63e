"""experiments/cifar_augmented.json in PyTorch: timm's VisionTransformer, torchvision's transforms, trained as the descriptor trains pre_pre.

Patch 4, width 128, depth 6, 4 heads, mean over tokens after the final LayerNorm; Big Vision's initial values; drop-path from 0 to 0.1; 1170 steps of 128
images; RandomCrop(32, padding=4), flip, RandAugment(2, 5) with black fill, mixup with one lambda of Beta(0.2, 0.2) a batch and the predecessor as partner;
AdamW 1e-3, weight decay 0.05 on matrices, half an epoch of warm-up, then a cosine; gradient norm clipped at 1. One line of JSON a seed goes to --out; a seed
that is there is skipped.

    pip install torch torchvision timm numpy pillow
    python tests/reference/augmented_twin.py --data data/cifar10 --seed 0 1 2 --threads 1 --out augmented.json

--bf16 runs forward and loss under autocast, as mixed precision is used there. cifar_twin.py says what MKL needs on AMD.
"""
import argparse
import json
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from cifar_twin import load_split
from PIL import Image
from timm.models.vision_transformer import VisionTransformer
from torch import nn
from torchvision import transforms

STEPS, PER_EPOCH, WARMUP, BATCH, RATE, DECAY, MIXUP = 1170, 390, 195, 128, 1e-3, 0.05, 0.2


def make_model():
    model = VisionTransformer(img_size=32, patch_size=4, num_classes=10, embed_dim=128, depth=6, num_heads=4, mlp_ratio=4, global_pool="avg",
                              class_token=False, fc_norm=False, drop_path_rate=0.1, norm_layer=lambda n, **kw: nn.LayerNorm(n, eps=1e-6, **kw))
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


def learning_rate(step):
    if step < WARMUP:
        return RATE * (step + 1) / (WARMUP + 1)
    return RATE * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


def mixed(images, labels):
    """One lambda for the batch; the partner is the predecessor, as in torchvision's MixUp."""
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
    model = make_model()
    decayed = [p for name, p in model.named_parameters() if p.ndim > 1 and name != "pos_embed"]
    others = [p for name, p in model.named_parameters() if p.ndim <= 1 or name == "pos_embed"]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
                                  lr=RATE, betas=(0.9, 0.999), eps=1e-8, fused=True)
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
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.step()
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with train-*.tar and test-*.tar")
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="results, one JSON object a line")
    parser.add_argument("--bf16", action="store_true", help="forward under autocast")
    parser.add_argument("--steps", type=int, help="stop early, for timing; goes to no file")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    done = {json.loads(line)["seed"] for line in args.out.read_text().splitlines()} if args.out and args.out.exists() else set()
    for seed in args.seed:
        if seed in done:
            print(f"seed {seed} is in {args.out}", file=sys.stderr)
            continue
        result = json.dumps(train(seed, args))
        print(result)
        if args.out and not args.steps:
            with args.out.open("a") as out:
                out.write(result + "\n")


if __name__ == "__main__":
    main()
