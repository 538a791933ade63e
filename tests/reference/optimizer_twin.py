"""Compares the optimisers with those of PyTorch and timm over many steps.

Writes cases in the format of tests/reference/fixtures: parameters, a gradient per step, and the results of
torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD, timm's Lamb and timm's Lion, computed in double. The test of the fixtures then
compares them:

    pip install torch timm safetensors numpy
    python tests/reference/optimizer_twin.py /tmp/optimizer_twin --steps 100
    REFERENCE_DIR=/tmp/optimizer_twin build/tests/run -tc="reference:*"

A tolerance is ten times the distance between the library's own runs in float and in double, or 32 units in the last
place of the largest value. Errors exceed it at least tenfold if Lion's two betas are exchanged, LAMB applies its ratio
to biases, or AdamW decays after the step.
"""
import argparse
import json
import math
import os

import numpy
import torch
from safetensors.torch import save_file
from timm.optim import Lamb, Lion

SHAPES = {"block.weight": (60, 300), "block.bias": (60,), "norm.gamma": (33,), "pos_embed": (1, 4, 8), "head.weight": (7, 9)}


def decays(name):
    return name.endswith("weight")


def rates(steps):
    """A linear warm-up, then half a cosine."""
    warmup = max(1, steps // 10)
    return [(i + 1) / warmup if i < warmup else 0.5 * (1 + math.cos(math.pi * (i - warmup) / (steps - warmup))) for i in range(steps)]


def trajectory(make, dtype, start, gradients, peak, clip):
    params = {k: torch.nn.Parameter(v.to(dtype).clone()) for k, v in start.items()}
    groups = [{"params": [p for k, p in params.items() if decays(k)]},
              {"params": [p for k, p in params.items() if not decays(k)], "weight_decay": 0.0}]
    optimizer = make(groups)
    out = {}
    for step, (gradient, rate) in enumerate(zip(gradients, rates(len(gradients))), 1):
        for k, p in params.items():
            p.grad = gradient[k].to(dtype).clone()
        if clip:
            torch.nn.utils.clip_grad_norm_(params.values(), clip)
        for group in optimizer.param_groups:
            group["lr"] = peak * rate
        optimizer.step()
        if step in (1, 10, len(gradients)):
            out |= {f"out/step{step}/{k}": p.detach().double().clone() for k, p in params.items()}
    return out


def write(folder, name, op, config, make, peak, clip, steps, seed):
    random = numpy.random.RandomState(seed)
    draw = lambda shape, std: torch.from_numpy(random.normal(0, std, shape).astype(numpy.float32))
    start = {k: draw(s, 0.5) for k, s in SHAPES.items()}
    # Gradients have a nonzero mean; otherwise an optimiser with memory would see only noise.
    drift = {k: draw(s, 0.2) for k, s in SHAPES.items()}
    gradients = [{k: drift[k] + draw(s, 0.3 if i % 7 else 3.0) for k, s in SHAPES.items()} for i in range(steps)]
    exact = trajectory(make, torch.float64, start, gradients, peak, clip)
    single = trajectory(make, torch.float32, start, gradients, peak, clip)
    atol = {k: max(10 * (v - single[k]).abs().max().item(), 32 * 2**-24 * v.abs().max().item()) for k, v in exact.items()}
    tensors = {f"in/{k}": v for k, v in start.items()} | {f"grad{i}/{k}": v for i, g in enumerate(gradients, 1) for k, v in g.items()}
    config |= {"rates": [peak * r for r in rates(steps)], "decayed": [k for k in sorted(SHAPES) if decays(k)], "clip": [clip, "torch"] if clip else None}
    save_file({k: v.contiguous() for k, v in (tensors | {k: v.float() for k, v in exact.items()}).items()},
              os.path.join(folder, "optim", name + ".safetensors"),
              {"op": op, "config": json.dumps(config), "atol": json.dumps(atol)})
    print(f"{name}: largest tolerance {max(a / exact[k].abs().max().item() for k, a in atol.items()):.1e} of the largest value")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    os.makedirs(os.path.join(args.folder, "optim"), exist_ok=True)
    torch.set_num_threads(1)
    case = lambda *a, **k: write(args.folder, *a, **k, steps=args.steps, seed=args.seed)
    case("adamw", "adamw", {"b1": 0.9, "b2": 0.95, "eps": 1e-8, "wd": 0.1},
         lambda p: torch.optim.AdamW(p, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1), peak=0.01, clip=1.0)
    case("adam", "adam", {"b1": 0.9, "b2": 0.999, "eps": 1e-8, "wd": 0.02},
         lambda p: torch.optim.Adam(p, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.02), peak=0.01, clip=1.0)
    for nesterov in (False, True):
        case(f"sgd_{'nesterov' if nesterov else 'heavy_ball'}", "sgd", {"mu": 0.9, "wd": 0.05, "nesterov": nesterov},
             lambda p: torch.optim.SGD(p, lr=1, momentum=0.9, weight_decay=0.05, nesterov=nesterov), peak=0.03, clip=2.0)
    case("lamb", "lamb", {"b1": 0.9, "b2": 0.999, "eps": 1e-6, "wd": 0.02},
         lambda p: Lamb(p, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.02, max_grad_norm=None), peak=0.01, clip=1.0)
    case("lion", "lion", {"b1": 0.9, "b2": 0.99, "wd": 0.3},
         lambda p: Lion(p, betas=(0.9, 0.99), weight_decay=0.3, foreach=False), peak=0.002, clip=None)


if __name__ == "__main__":
    main()
