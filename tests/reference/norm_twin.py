"""Writes fixtures of small Vision Transformers of timm with GatedNorm and PRepBN, written here by their papers, whose
logits, loss, gradients and running statistics the C++ side must match, and whole trainings by AdamW. Needs torch,
timm, safetensors.

    python tests/reference/norm_twin.py tests/reference/newer
"""

import copy
import json
import pathlib
import re
import sys

import timm
import torch
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer

EPS, BN_EPS, MOMENTUM, RANK, SHARE = 1e-6, 1e-5, 0.1, 3, 0.75
STEPS, BATCHES, CLIP = 20, 4, 1.0
ADAMW = {"b1": 0.9, "b2": 0.999, "eps": 1e-8, "wd": 0.05}
RATES = [2e-3 * min(1, (i + 1) / 5) for i in range(STEPS)]
WIDTH, HIDDEN, DEPTH, HEADS, SIDE, PATCH, CLASSES, BATCH = 8, 20, 2, 2, 8, 4, 5, 3


class GatedNorm(torch.nn.Module):
    """arXiv:2601.22966: y sigmoid(W_up silu(W_down y)) with y = RMSNorm(x)."""

    def __init__(self, width, **_):
        super().__init__()
        self.rms = torch.nn.RMSNorm(width, eps=EPS)
        self.down = torch.nn.Linear(width, RANK, bias=False)
        self.up = torch.nn.Linear(RANK, width, bias=False)

    def forward(self, x):
        y = self.rms(x)
        return y * torch.sigmoid(self.up(torch.nn.functional.silu(self.down(y))))


class PRepBN(torch.nn.Module):
    """arXiv:2405.11582: l LN(x) + (1 - l) (BN(x) + eta x), in an evaluation BN(x) + eta x."""

    progress = 0.0

    def __init__(self, width, **_):
        super().__init__()
        self.ln = torch.nn.LayerNorm(width, eps=BN_EPS)
        self.bn = torch.nn.BatchNorm1d(width, eps=BN_EPS, momentum=MOMENTUM)
        self.eta = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        batch = self.bn(x.transpose(1, 2)).transpose(1, 2) + self.eta * x
        if not self.training:
            return batch
        share = max(1 - PRepBN.progress / SHARE, 0)
        return share * self.ln(x) + (1 - share) * batch


CASES = {  # the class, whether heads have norms too, the mode, the progress
    "gated_norm": (GatedNorm, True, "train", 0.0),
    "prep_bn": (PRepBN, False, "train", 0.3),
    "prep_bn_after_decay": (PRepBN, False, "train", 0.8),
    "prep_bn_eval": (PRepBN, False, "eval", 0.0),
}
TRAINED = ("gated_norm", "prep_bn")
RENAMED = (
    (r"^patch_embed\.proj\.", "patch_embed."),
    (r"norm1\.", "attn.pre."),
    (r"norm2\.", "mlp.pre."),
    (r"q_norm\.", "query."),
    (r"k_norm\.", "key."),
    (r"^norm\.", "final."),
    (r"ln\.weight$", "row_gamma"),
    (r"ln\.bias$", "row_beta"),
    (r"(rms|bn)\.weight$", "gamma"),
    (r"bn\.bias$", "beta"),
    (r"bn\.running", "running"),
    (r"(down|up)\.weight$", r"\1"),
)


def our_name(name, value):
    """Normlab's (name, value) pairs for a tensor of timm."""
    for old, new in RENAMED:
        name = re.sub(old, new, name)
    if name == "patch_embed.weight":
        value = value.permute(0, 2, 3, 1).reshape(value.shape[0], -1)
    if ".attn.qkv." in name:
        return [(name.replace("qkv", part), v) for part, v in zip("qkv", value.chunk(3))]
    return [(name, value)]


def ours(prefix, named):
    return {prefix + name: v.float().contiguous().clone() for key, value in named for name, v in our_name(key, value)}


def running(model, prefix):
    return ours(prefix, [(k, v) for k, v in model.named_buffers() if "running" in k])


def config(kind, heads, mode):
    none = lambda *sites: {site: "none" for site in sites}
    on = {"query": kind, "key": kind} if heads else none("query", "key")
    return {
        "image_size": [SIDE, SIDE], "channels": 3, "patch_size": PATCH, "embed_dim": WIDTH, "depth": DEPTH,
        "num_heads": HEADS, "mlp_dim": HIDDEN, "num_classes": CLASSES, "pool": "gap", "pos_embed": "learned",
        "pos_embed_class": False, "posembed_out_includes_class": True, "qkv_bias": True, "rep_size": 0, "gelu": "erf",
        "eps": EPS, "bn_eps": BN_EPS, "bn_momentum": MOMENTUM, "rank": RANK, "decay_share": SHARE,
        "head_scale": "none", "residual_scale": False, "layer_scale": "none", "loss": "softmax_hard", "mode": mode,
        "drop": {}, "stem": none("patch_in", "patch_out", "posembed_out"),
        "attn": {"pre": kind} | on | none("value", "inner", "out", "post"),
        "mlp": {"pre": kind} | none("hidden", "inner", "out", "post"), "final": kind, "pooled": "none",
    }  # fmt: skip


def make(name, norm, heads, mode):
    torch.manual_seed(sum(name.encode()))
    model = VisionTransformer(
        img_size=SIDE, patch_size=PATCH, embed_dim=WIDTH, depth=DEPTH, num_heads=HEADS, mlp_ratio=HIDDEN / WIDTH,
        num_classes=CLASSES, class_token=False, global_pool="avg", fc_norm=False, norm_layer=norm,
        qk_norm=heads)  # fmt: skip
    with torch.no_grad():
        for key, p in model.named_parameters():
            gain = our_name(key, p)[0][0].endswith(("gamma", "eta"))
            p.copy_(torch.randn_like(p) * (0.2 if gain or p.ndim < 2 else p[0].numel() ** -0.5) + float(gain))
        for key, b in model.named_buffers():
            if "running" in key:
                b.copy_(torch.rand_like(b) + (0.5 if key.endswith("var") else -0.5))
    return model.train(mode == "train")


def evaluate(model, images, labels):
    images = images.detach().requires_grad_()
    logits = model(images.permute(0, 3, 1, 2))
    loss = torch.nn.functional.cross_entropy(logits, labels)
    loss.backward()
    values = {"out/logits": logits.detach(), "out/loss": loss.detach(), "grad/images": images.grad}
    for name, p in model.named_parameters():
        gradient = torch.zeros_like(p) if p.grad is None else p.grad
        values |= {"grad/" + key: v for key, v in our_name(name, gradient)}
    for name, b in model.named_buffers():
        values |= {"out/" + key: v.clone() for key, v in our_name(name, b) if "running" in name}
    return values


def tolerances(narrow, wide, least, vanishing):
    """`vanishing`: the allowance for gradients that mathematics says are 0, or what follows from them."""
    atol = {}
    for key, value in wide.items():
        scale = vanishing if key.endswith(".k.bias") else least * float(value.abs().max())
        atol[key] = max(10 * float((value - narrow[key]).abs().max()), scale, 1e-7)
    return atol


def write(folder, name, norm, heads, mode, progress):
    model = make(name, norm, heads, mode)
    PRepBN.progress = progress
    images = torch.randn(BATCH, SIDE, SIDE, 3)
    labels = torch.arange(BATCH) % CLASSES
    tensors = {"in/images": images, "const/labels": labels.to(torch.int32), "dout/loss": torch.ones(())}
    tensors |= ours("param/", [(k, v.detach()) for k, v in model.named_parameters()]) | running(model, "const/")
    narrow = evaluate(copy.deepcopy(model), images, labels)
    wide = evaluate(model.double(), images.double(), labels)
    largest = max(float(v.abs().max()) for k, v in wide.items() if k.startswith("grad/"))
    atol = tolerances(narrow, wide, 3e-6, 3e-6 * largest)
    tensors |= {key: value.float().contiguous() for key, value in wide.items()}
    kind = "gated_norm" if norm is GatedNorm else "prep_bn"
    metadata = {"op": "vit", "config": json.dumps(config(kind, heads, mode) | {"progress": progress}),
                "atol": json.dumps(atol)}  # fmt: skip
    save_file(tensors, folder / f"{name}.safetensors", metadata)


def decays(name):
    return name.endswith("weight") and not re.search(r"(rms|ln|bn)\.weight$", name)


def train(model, images, labels):
    """Losses, norms of gradients, final parameters and running statistics, in the model's type."""
    named = list(model.named_parameters())
    groups = [{"params": [p for n, p in named if decays(n) == d], "weight_decay": ADAMW["wd"] * d} for d in (True, False)]
    optimizer = torch.optim.AdamW(groups, betas=(ADAMW["b1"], ADAMW["b2"]), eps=ADAMW["eps"])
    losses, norms = [], []
    for i, rate in enumerate(RATES):
        PRepBN.progress = i / STEPS
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images[i % BATCHES].permute(0, 3, 1, 2)), labels[i % BATCHES])
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP))
        optimizer.step()
        losses.append(loss.detach())
    out = {"out/losses": torch.stack(losses), "out/grad_norms": torch.stack(norms)}
    for key, value in named + [(k, v) for k, v in model.named_buffers() if "running" in k]:
        out |= {"out/final/" + name: v.clone() for name, v in our_name(key, value.detach())}
    return out


def write_training(folder, name, norm, heads, *_):
    model = make("train " + name, norm, heads, "train")
    images = torch.randn(BATCHES, 6, SIDE, SIDE, 3)
    labels = torch.arange(BATCHES * 6).reshape(BATCHES, 6) % CLASSES
    tensors = {"in/images": images, "const/labels": labels.to(torch.int32)}
    tensors |= ours("param/", [(k, v.detach()) for k, v in model.named_parameters()]) | running(model, "const/")
    narrow = train(copy.deepcopy(model), images, labels)
    wide = train(model.double(), images.double(), labels)
    # The gradient of a key bias is only rounding, which AdamW scales up to whole steps, unless keys have norms.
    atol = tolerances(narrow, wide, 1e-5, 0 if heads else 2 * sum(RATES))
    decayed = [key for n, v in model.named_parameters() if decays(n) for key, _ in our_name(n, v)]
    more = {"optimizer": {"name": "adamw"} | ADAMW, "rates": RATES, "decayed": decayed, "clip": [CLIP, "torch"],
            "steps": STEPS, "batches": BATCHES, "no_gradient": []}  # fmt: skip
    tensors |= {key: value.float().contiguous() for key, value in wide.items()}
    metadata = {"op": "train", "config": json.dumps(config(name, heads, "train") | more), "atol": json.dumps(atol)}
    save_file(tensors, folder / f"{name}.safetensors", metadata)


def main():
    models, trainings = (pathlib.Path(sys.argv[1]) / part for part in ("models", "train"))
    for name, case in CASES.items():
        write(models, name, *case)
    for name in TRAINED:
        write_training(trainings, name, *CASES[name])
    print(f"timm {timm.__version__}, torch {torch.__version__}: {len(CASES) + len(TRAINED)} files")


main()
