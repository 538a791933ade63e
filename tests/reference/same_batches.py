"""Checks that PyTorch, trained on normlab's batches, reaches the same losses.

Trains timm's VisionTransformer as augmented_twin.py does, but on the batches that a trial of
experiments/cifar_augmented.json sees, and with --init from its initial values. With --drop-path 0 and --init, and
without --bf16, nothing is random: each loss must equal that of normlab's run with model.drop_path 0 and fp32. With
--metrics, the mean losses of 50 steps are printed beside those in that run's metrics.jsonl.

    pip install torch timm safetensors numpy pillow
    NORMLAB_BATCHES_OUT=batches NORMLAB_BATCHES_OF=experiments/cifar_augmented.json NORMLAB_DATA=data \\
        build/tests/run -tc="twin: export all batches of a trial"
    python tests/reference/same_batches.py batches --init --drop-path 0 --steps 400 --metrics TRIAL/attempt-1/metrics.jsonl
"""
import argparse
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from augmented_twin import BATCH, STEPS, WARMUP
from cifar_twin import learning_rate, make_model, make_optimizer, update
from safetensors import safe_open
from same_training import timm_state

EVERY = 50


def recorded(path):
    """Step -> mean training loss of the preceding 50 steps."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path else []
    return {line["step"]: line["train/loss"] for line in lines if "train/loss" in line}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="NORMLAB_BATCHES_OUT")
    parser.add_argument("--init", action="store_true", help="start from our values, otherwise from values drawn here")
    parser.add_argument("--drop-path", type=float, default=0.1)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn here")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--metrics", type=Path, help="metrics.jsonl of our run")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    images = np.memmap(args.folder / "images.f32", np.float32, "r").reshape(-1, BATCH, 32, 32, 3)
    targets = np.memmap(args.folder / "targets.f32", np.float32, "r").reshape(-1, BATCH, 10)
    ours = recorded(args.metrics)
    torch.manual_seed(args.seed)
    model = make_model(embed_dim=128, depth=6, num_heads=4, drop_path_rate=args.drop_path)
    if args.init:
        with safe_open(args.folder / "initial.safetensors", "pt") as file:
            values = {name.split("/", 1)[1]: file.get_tensor(name) for name in file.keys()}
        model.load_state_dict(timm_state(values, {"placement": "pre_pre", "patch_size": 4, "channels": 3}))
    optimizer, losses = make_optimizer(model), []
    print(f"{'step':>6} {'torch':>9} {'normlab':>9} {'difference':>11}")
    for step in range(min(args.steps, len(images))):
        x = torch.from_numpy(images[step].copy()).permute(0, 3, 1, 2)
        with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
            loss = F.cross_entropy(model(x).float(), torch.from_numpy(targets[step].copy()))
        update(model, optimizer, loss, learning_rate(step, STEPS, WARMUP))
        losses.append(loss.item())
        if (step + 1) % EVERY == 0:
            mean, other = np.mean(losses[-EVERY:]), ours.get(step + 1, float("nan"))
            print(f"{step + 1:6} {mean:9.5f} {other:9.5f} {mean - other:11.2e}", flush=True)


if __name__ == "__main__":
    main()
