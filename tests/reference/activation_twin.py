"""Writes fixtures of small Vision Transformers of timm with other activations and gated MLPs, whose logits, loss and
gradients the C++ side must match, and whole trainings by AdamW. Needs torch, timm, safetensors.

    python tests/reference/activation_twin.py tests/reference/newer
"""

import copy
import json
import pathlib
import re
import sys

import timm
import torch
from safetensors.torch import save_file
from timm.layers import SwiGLU
from timm.models.vision_transformer import VisionTransformer


class ReluSquared(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.relu(x) ** 2


class Mish(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.mish(x)


# timm's activation, whether it is gated, and what the config says.
CASES = {
    "relu": ("relu", False, {"activation": "relu"}),
    "silu": ("silu", False, {"activation": "silu"}),
    "relu_squared": (ReluSquared, False, {"activation": "relu_squared"}),
    "quick_gelu": ("quick_gelu", False, {"activation": {"formula": "x * sigmoid(1.702 * x)"}}),
    "swiglu": ("silu", True, {}),
    "geglu": ("gelu", True, {"activation": "gelu"}),
    "geglu_tanh": ("gelu_tanh", True, {"activation": "gelu", "gelu": "tanh"}),
    "reglu": ("relu", True, {"activation": "relu"}),
    "mish_gated": (Mish, True, {"activation": {"formula": "x * tanh(softplus(x)) * g"}}),
}
TRAINED = ("relu_squared", "swiglu")
STEPS, BATCHES, CLIP = 20, 4, 1.0
ADAMW = {"b1": 0.9, "b2": 0.999, "eps": 1e-8, "wd": 0.05}
RATES = [2e-3 * min(1, (i + 1) / 5) for i in range(STEPS)]
WIDTH, HIDDEN, DEPTH, HEADS, SIDE, PATCH, CLASSES, BATCH = 8, 20, 2, 2, 8, 4, 5, 2
RENAMED = (
    (r"^patch_embed\.proj\.", "patch_embed."),
    (r"norm1\.", "attn.pre."),
    (r"norm2\.", "mlp.pre."),
    (r"mlp\.fc1_g\.", "mlp.fc1."),
    (r"mlp\.fc1_x\.", "mlp.fc3."),
    (r"^norm\.", "final."),
)


def our_name(name, value):
    """Normlab's (name, value) pairs for a parameter of timm."""
    for old, new in RENAMED:
        name = re.sub(old, new, name)
    if norm := re.search(r"(pre|final)\.(weight|bias)$", name):
        name = name[: norm.start(2)] + {"weight": "gamma", "bias": "beta"}[norm[2]]
    if name == "patch_embed.weight":
        value = value.permute(0, 2, 3, 1).reshape(value.shape[0], -1)
    if ".attn.qkv." in name:
        return [(name.replace("qkv", part), v) for part, v in zip("qkv", value.chunk(3))]
    return [(name, value)]


def evaluate(model, images, labels):
    model.zero_grad()
    images = images.detach().requires_grad_()
    logits = model(images.permute(0, 3, 1, 2))
    loss = torch.nn.functional.cross_entropy(logits, labels)
    loss.backward()
    values = {"out/logits": logits.detach(), "out/loss": loss.detach(), "grad/images": images.grad}
    for name, parameter in model.named_parameters():
        values |= {"grad/" + ours: gradient for ours, gradient in our_name(name, parameter.grad)}
    return values


def config(gated, keys):
    none = lambda *sites: {site: "none" for site in sites}
    return {
        "image_size": [SIDE, SIDE], "channels": 3, "patch_size": PATCH, "embed_dim": WIDTH, "depth": DEPTH,
        "num_heads": HEADS, "mlp_dim": HIDDEN, "num_classes": CLASSES, "pool": "gap", "pos_embed": "learned",
        "pos_embed_class": False, "posembed_out_includes_class": True, "qkv_bias": True, "rep_size": 0, "gelu": "erf",
        "eps": 1e-6, "bn_eps": 1e-5, "bn_momentum": 0.1, "head_scale": "none", "residual_scale": False,
        "layer_scale": "none", "loss": "softmax_hard", "mode": "train", "drop": {},
        "stem": none("patch_in", "patch_out", "posembed_out"),
        "attn": {"pre": "layer_norm"} | none("query", "key", "value", "inner", "out", "post"),
        "mlp": {"pre": "layer_norm"} | none("hidden", "inner", "out", "post"),
        "final": "layer_norm", "pooled": "none", "mlp_form": "gated" if gated else "plain",
    } | keys  # fmt: skip


def make(name, activation, gated, change):
    torch.manual_seed(sum(name.encode()))
    model = VisionTransformer(
        img_size=SIDE, patch_size=PATCH, embed_dim=WIDTH, depth=DEPTH, num_heads=HEADS, mlp_ratio=HIDDEN / WIDTH,
        num_classes=CLASSES, class_token=False, global_pool="avg", fc_norm=False, act_layer=activation,
        **({"mlp_layer": SwiGLU} if gated else {}))  # fmt: skip
    for block in model.blocks:
        change(block)
    with torch.no_grad():
        for key, p in model.named_parameters():
            gain = our_name(key, p)[0][0].endswith("gamma")
            p.copy_(torch.randn_like(p) * (0.2 if gain or p.ndim < 2 else p[0].numel() ** -0.5) + float(gain))
            if "logit_scale" in key:
                p.copy_(torch.linspace(1, 6, p.numel()))  # the last is beyond the limit
            if key.endswith("key.gamma"):
                p.mul_(0.1)  # so that 100 times a product is no large number
    return model


def parameters(model, prefix):
    return {prefix + ours: v.contiguous().clone() for key, value in model.named_parameters()
            for ours, v in our_name(key, value.detach().float())}  # fmt: skip


def write(folder, name, activation, gated, keys, change=lambda block: None):
    model = make(name, activation, gated, change)
    images = torch.randn(BATCH, SIDE, SIDE, 3)
    labels = torch.arange(BATCH) % CLASSES
    narrow = evaluate(model, images, labels)
    wide = evaluate(model.double(), images.double(), labels)
    largest = max(float(v.abs().max()) for k, v in wide.items() if k.startswith("grad/"))
    atol = {}
    for key, value in wide.items():
        # The gradient of a key bias is only rounding.
        scale = largest if key.endswith(".k.bias") else float(value.abs().max())
        atol[key] = max(10 * float((value - narrow[key]).abs().max()), 3e-6 * scale)
    tensors = {key: value.float().contiguous() for key, value in wide.items()}
    tensors |= {"in/images": images, "const/labels": labels.to(torch.int32), "dout/loss": torch.ones(())}
    tensors |= parameters(model, "param/")
    metadata = {"op": "vit", "config": json.dumps(config(gated, keys)), "atol": json.dumps(atol)}
    save_file(tensors, folder / f"{name}.safetensors", metadata)


def decays(name):
    return name.endswith("weight") and "norm" not in name


def train(model, images, labels):
    """Losses, norms of gradients and final parameters, in the model's type."""
    named = list(model.named_parameters())
    groups = [{"params": [p for n, p in named if decays(n) == d], "weight_decay": ADAMW["wd"] * d} for d in (True, False)]
    optimizer = torch.optim.AdamW(groups, betas=(ADAMW["b1"], ADAMW["b2"]), eps=ADAMW["eps"])
    losses, norms = [], []
    for i, rate in enumerate(RATES):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images[i % BATCHES].permute(0, 3, 1, 2)), labels[i % BATCHES])
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP))
        optimizer.step()
        losses.append(loss.detach())
    out = {"out/losses": torch.stack(losses), "out/grad_norms": torch.stack(norms)}
    for key, value in named:
        out |= {"out/final/" + ours: v.clone() for ours, v in our_name(key, value.detach())}
    return out


def write_training(folder, name, activation, gated, keys, change=lambda block: None):
    model = make("train " + name, activation, gated, change)
    images = torch.randn(BATCHES, 6, SIDE, SIDE, 3)
    labels = torch.arange(BATCHES * 6).reshape(BATCHES, 6) % CLASSES
    tensors = {"in/images": images, "const/labels": labels.to(torch.int32)} | parameters(model, "param/")
    narrow = train(copy.deepcopy(model), images, labels)
    wide = train(model.double(), images.double(), labels)
    atol = {}
    for key, value in wide.items():
        # The gradient of a key bias is only rounding, which AdamW scales up to whole steps.
        drift = 2 * sum(RATES) if key.endswith(".k.bias") else 0
        atol[key] = max(10 * float((value - narrow[key]).abs().max()), 1e-5 * float(value.abs().max()), drift)
    decayed = [ours for key, value in model.named_parameters() if decays(key) for ours, _ in our_name(key, value)]
    more = {"optimizer": {"name": "adamw"} | ADAMW, "rates": RATES, "decayed": decayed, "clip": [CLIP, "torch"],
            "steps": STEPS, "batches": BATCHES, "no_gradient": []}  # fmt: skip
    tensors |= {key: value.float().contiguous() for key, value in wide.items()}
    metadata = {"op": "train", "config": json.dumps(config(gated, keys) | more), "atol": json.dumps(atol)}
    save_file(tensors, folder / f"{name}.safetensors", metadata)


def folders():
    out = [pathlib.Path(sys.argv[1]) / part for part in ("models", "train")]
    for folder in out:
        folder.mkdir(parents=True, exist_ok=True)
    return out


def main():
    models, trainings = folders()
    for name, case in CASES.items():
        write(models, name, *case)
    for name in TRAINED:
        write_training(trainings, name, *CASES[name])
    print(f"timm {timm.__version__}, torch {torch.__version__}: {len(CASES) + len(TRAINED)} files")


if __name__ == "__main__":
    main()
