"""The recipe cifar_fast in PyTorch: timm's VisionTransformer, torch.optim.Muon, autocast to bf16.

Patch 4, width 128, depth 6, 4 heads; Muon at 4e-3 on the blocks' matrices, AdamW at 2e-3 on the rest; 15 epochs of 390
batches of 128, 300 steps of warm-up, then a line to zero; label smoothing 0.1; crops after 4 pixels of padding, flips.
Unlike in normlab, q, k and v are one matrix for Muon. Data, augmentation, loop and options are those of cifar_twin.py.

    python tests/reference/fast_twin.py --data data/cifar10 --seed 0 1 2 --threads 1 --out results.json
    python tests/reference/fast_twin.py --data data/cifar10 --threads 1 --steps 120    # only images per second
"""
from functools import partial

import torch
import torch.nn.functional as F
from cifar_twin import make_model, run_seeds, train
from torch import nn

EPOCHS, WARMUP, MUON_RATE, ADAMW_RATE, DECAY, SMOOTHING = 15, 300, 4e-3, 2e-3, 0.05, 0.1


def recipe():
    model = make_model(embed_dim=128, depth=6, num_heads=4)
    matrices = [p for name, p in model.named_parameters() if name.startswith("blocks.") and p.ndim == 2]
    others = [p for name, p in model.named_parameters() if not (name.startswith("blocks.") and p.ndim == 2)]
    optimizers = [(torch.optim.Muon(matrices, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw"), MUON_RATE),
                  (torch.optim.AdamW(others, weight_decay=0.0, fused=True), ADAMW_RATE)]

    def loss_of(forward, images, labels):
        with torch.autocast("cpu", torch.bfloat16):
            return F.cross_entropy(forward(images).float(), labels, label_smoothing=SMOOTHING)

    def step(loss, number, total, per_epoch):
        share = (number + 1) / (WARMUP + 1) if number < WARMUP else 1 - (number - WARMUP) / (total - WARMUP)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        for optimizer, rate in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = share * rate
            optimizer.step()
            optimizer.zero_grad()

    return model, loss_of, step


if __name__ == "__main__":
    run_seeds(partial(train, recipe=recipe, epochs=EPOCHS), __doc__, "--compile", "torch.compile", threads=1)
