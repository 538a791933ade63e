"""Writes fixtures of small Vision Transformers with rotary positions and register tokens, defined here in PyTorch, whose
logits, loss and gradients the C++ side must match, and whole trainings by AdamW. Needs torch, safetensors.

    python tests/reference/rotary_twin.py tests/reference/newer

Angles as in DINOv3 (dinov3/layers/rope_position_encoding.py), EVA-02 (asuka/rope.py) and ViT-5 (rope.py,
models_vit5.py), of whose rotations this file has its own form: pairs of channels are complex numbers.
"""

import json
import math
import pathlib
import sys

import torch
from safetensors.torch import save_file
from torch.nn import functional as F

HEIGHT, WIDE, PATCH, WIDTH, HIDDEN, DEPTH, HEADS, CLASSES, BATCH = 8, 12, 4, 16, 20, 2, 2, 5, 2
GRID, HEAD, EPS = (HEIGHT // PATCH, WIDE // PATCH), WIDTH // HEADS, 1e-6
STEPS, BATCHES, CLIP = 20, 4, 1.0
ADAMW = {"b1": 0.9, "b2": 0.999, "eps": 1e-6, "wd": 0.05}  # 1e-8 would scale up the rounding of small gradients
RATES = [2e-3 * min(1, (i + 1) / 5) for i in range(STEPS)]
LAYER, RMS = "layer_norm", "rms_norm"
PLAIN = {"pool": "gap", "pos_embed": "learned", "pos_embed_class": False, "posembed_out_includes_class": True,
         "qkv_bias": True, "norm": LAYER, "qk_norm": "none", "posembed_out": "none", "layer_scale": "none",
         "registers": 0}  # fmt: skip
CASES = {
    "rotary_dinov3": {"pool": "token", "pos_embed": "none", "qkv_bias": False, "layer_scale": "channel", "registers": 2,
                      "rotary": "dinov3"},
    "rotary_eva02": {"rotary": {"dialect": "eva02", "grid": [4, 3]}},
    "rotary_base": {"pool": "token", "pos_embed": "sincos2d", "rotary": {"dialect": "dinov3", "base": 30}},
    "rotary_vit5": {"pool": "token", "qkv_bias": False, "norm": RMS, "qk_norm": RMS, "layer_scale": "channel",
                    "registers": 4, "rotary": {"dialect": "eva02", "register_base": 100}},
    "registers_gap": {"registers": 3, "posembed_out": LAYER},
    "registers_class": {"pool": "token", "pos_embed_class": True, "registers": 3, "posembed_out": LAYER,
                        "posembed_out_includes_class": False},
}  # fmt: skip
TRAINED = ("rotary_dinov3", "rotary_vit5")


def shapes(c):
    """(name, shape, is a gain) of each parameter."""
    norm = lambda site, kind, width: [(f"{site}.gamma", (width,), True)] * (kind != "none") + [
        (f"{site}.beta", (width,), False)] * (kind == LAYER)  # fmt: skip
    linear = lambda name, out, i, bias=True: [(f"{name}.weight", (out, i), False)] + [
        (f"{name}.bias", (out,), False)] * bias  # fmt: skip
    prefix = c["pool"] == "token"
    out = linear("patch_embed", WIDTH, PATCH * PATCH * 3)
    out += [("cls_token", (1, 1, WIDTH), False)] * prefix
    out += [("reg_token", (1, c["registers"], WIDTH), False)] * (c["registers"] > 0)
    if c["pos_embed"] == "learned":
        out += [("pos_embed", (1, GRID[0] * GRID[1] + (prefix and c["pos_embed_class"]), WIDTH), False)]
    out += norm("stem.posembed_out", c["posembed_out"], WIDTH)
    for block in (f"blocks.{i}." for i in range(DEPTH)):
        out += norm(block + "attn.pre", c["norm"], WIDTH)
        for part in "qkv":
            out += linear(f"{block}attn.{part}", WIDTH, WIDTH, c["qkv_bias"])
        out += norm(block + "attn.query", c["qk_norm"], HEAD) + norm(block + "attn.key", c["qk_norm"], HEAD)
        out += linear(block + "attn.proj", WIDTH, WIDTH) + norm(block + "mlp.pre", c["norm"], WIDTH)
        out += linear(block + "mlp.fc1", HIDDEN, WIDTH) + linear(block + "mlp.fc2", WIDTH, HIDDEN)
        if c["layer_scale"] != "none":
            out += [(f"{block}{branch}.layer_scale", (WIDTH,), True) for branch in ("attn", "mlp")]
    return out + norm("final", c["norm"], WIDTH) + linear("head", CLASSES, WIDTH)


def angles(grid, base, coordinates, dtype):
    """[tokens, HEAD / 2]: one quarter of the channels by row, the next by column."""
    frequencies = base ** (-torch.arange(0, HEAD // 2, 2, dtype=dtype) / (HEAD // 2))
    rows, columns = (torch.outer(coordinates(i, dtype), frequencies) for i in (0, 1))
    return torch.cat([rows[:, None].expand(-1, grid[1], -1), columns[None].expand(grid[0], -1, -1)], -1).flatten(0, 1)


def turns(c, dtype):
    """[tokens, HEAD / 2], zero for those that do not turn; None without rotary positions."""
    if "rotary" not in c:
        return None
    rotary = c["rotary"] if isinstance(c["rotary"], dict) else {"dialect": c["rotary"]}
    steps = lambda n, dtype: torch.arange(n, dtype=dtype)
    if rotary["dialect"] == "dinov3":
        own = angles(GRID, rotary.get("base", 100), lambda i, t: 2 * math.pi * (2 * (steps(GRID[i], t) + 0.5) / GRID[i] - 1), dtype)
    else:
        reference = rotary.get("grid", GRID)
        own = angles(GRID, rotary.get("base", 10000), lambda i, t: steps(GRID[i], t) / GRID[i] * reference[i], dtype)
    registers = torch.zeros(c["registers"], HEAD // 2, dtype=dtype)
    if base := rotary.get("register_base"):
        side = math.isqrt(c["registers"])
        registers = angles((side, side), base, lambda i, t: steps(side, t), dtype)
    return torch.cat([torch.zeros(int(c["pool"] == "token"), HEAD // 2, dtype=dtype), registers, own]), rotary["dialect"]


def rotate(x, table):
    """x [B, heads, N, HEAD]."""
    if table is None:
        return x
    angle, dialect = table
    pairs = x.unflatten(-1, (2, -1)).transpose(-1, -2) if dialect == "dinov3" else x.unflatten(-1, (-1, 2))
    turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angle), angle))
    return (turned.transpose(-1, -2) if dialect == "dinov3" else turned).flatten(-2)


def sincos2d(dtype):
    y, x = torch.meshgrid(*(torch.arange(n, dtype=dtype) for n in GRID), indexing="ij")
    omega = 10000.0 ** (-torch.arange(WIDTH // 4, dtype=dtype) / (WIDTH // 4 - 1))
    x, y = x.flatten()[:, None] * omega, y.flatten()[:, None] * omega
    return torch.cat([x.sin(), x.cos(), y.sin(), y.cos()], 1)[None]


def network(c, p, images):
    def norm(site, x):
        if f"{site}.gamma" not in p:
            return x
        if f"{site}.beta" in p:
            return F.layer_norm(x, x.shape[-1:], p[f"{site}.gamma"], p[f"{site}.beta"], EPS)
        return x * (x.pow(2).mean(-1, keepdim=True) + EPS).rsqrt() * p[f"{site}.gamma"]

    linear = lambda name, x: F.linear(x, p[f"{name}.weight"], p.get(f"{name}.bias"))
    scaled = lambda branch, x: x * p.get(f"{branch}.layer_scale", 1)
    batch, table = len(images), turns(c, images.dtype)
    x = images.unflatten(1, (GRID[0], PATCH)).unflatten(3, (GRID[1], PATCH)).transpose(2, 3).flatten(3).flatten(1, 2)
    x, first = linear("patch_embed", x), int(c["pool"] == "token")
    tokens = [p["cls_token"].expand(batch, -1, -1)] if first else []
    if c["pos_embed"] == "learned":
        tokens = [t + p["pos_embed"][:, :1] if c["pos_embed_class"] else t for t in tokens]
        x = x + p["pos_embed"][:, -x.shape[1]:]
    elif c["pos_embed"] == "sincos2d":
        x = x + sincos2d(x.dtype)
    if not c["posembed_out_includes_class"]:
        x = norm("stem.posembed_out", x)
    if c["registers"]:
        tokens.append(p["reg_token"].expand(batch, -1, -1))
    x = torch.cat(tokens + [x], 1)
    if c["posembed_out_includes_class"]:
        x = norm("stem.posembed_out", x)
    for block in (f"blocks.{i}." for i in range(DEPTH)):
        h = norm(block + "attn.pre", x)
        q, k, v = (linear(f"{block}attn.{part}", h).unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for part in "qkv")
        q, k = rotate(norm(block + "attn.query", q), table), rotate(norm(block + "attn.key", k), table)
        attended = ((q @ k.transpose(-1, -2) / math.sqrt(HEAD)).softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = x + scaled(block + "attn", linear(block + "attn.proj", attended))
        h = linear(block + "mlp.fc2", F.gelu(linear(block + "mlp.fc1", norm(block + "mlp.pre", x))))
        x = x + scaled(block + "mlp", h)
    x = norm("final", x)
    return linear("head", x[:, 0] if first else x[:, c["registers"]:].mean(1))


def leaves(parameters, dtype):
    return {name: value.detach().to(dtype, copy=True).requires_grad_() for name, value in parameters.items()}


def evaluate(c, parameters, images, labels):
    p, images = leaves(parameters, images.dtype), images.detach().requires_grad_()
    logits = network(c, p, images)
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    values = {"out/logits": logits.detach(), "out/loss": loss.detach(), "grad/images": images.grad}
    return values | {"grad/" + name: value.grad for name, value in p.items()}


def config(c):
    none = lambda *sites: {site: "none" for site in sites}
    own = {key: value for key, value in c.items() if key not in ("norm", "qk_norm", "posembed_out")}
    return {
        "image_size": [HEIGHT, WIDE], "channels": 3, "patch_size": PATCH, "embed_dim": WIDTH, "depth": DEPTH,
        "num_heads": HEADS, "mlp_dim": HIDDEN, "num_classes": CLASSES, "rep_size": 0, "gelu": "erf", "eps": EPS,
        "bn_eps": 1e-5, "bn_momentum": 0.1, "head_scale": "none", "residual_scale": False, "loss": "softmax_hard",
        "mode": "train", "drop": {}, "stem": none("patch_in", "patch_out") | {"posembed_out": c["posembed_out"]},
        "attn": {"pre": c["norm"], "query": c["qk_norm"], "key": c["qk_norm"]} | none("value", "inner", "out", "post"),
        "mlp": {"pre": c["norm"]} | none("hidden", "inner", "out", "post"), "final": c["norm"], "pooled": "none",
    } | own  # fmt: skip


def draw(c, seed):
    torch.manual_seed(seed)
    return {name: torch.randn(shape) * (0.2 if gain or len(shape) != 2 else shape[1] ** -0.5) + float(gain)
            for name, shape, gain in shapes(c)}  # fmt: skip


def save(folder, name, op, wide, narrow, config, inputs, drift):
    largest = max((float(v.abs().max()) for k, v in wide.items() if k.startswith("grad/")), default=0)
    atol = {}
    for key, value in wide.items():
        # Without rotary positions the gradient of a key bias is only rounding, which AdamW scales up to whole steps.
        scale = largest if key.endswith(".k.bias") else float(value.abs().max())
        floor = max(3e-6 * scale, drift if key.endswith(".k.bias") else 0)
        atol[key] = max(10 * float((value - narrow[key]).abs().max()), floor)
    tensors = {key: value.detach().float().contiguous() for key, value in wide.items()} | inputs
    save_file(tensors, folder / f"{name}.safetensors", {"op": op, "config": json.dumps(config), "atol": json.dumps(atol)})


def write(folder, name, c):
    parameters = draw(c, sum(name.encode()))
    images, labels = torch.randn(BATCH, HEIGHT, WIDE, 3), torch.arange(BATCH) % CLASSES
    narrow, wide = (evaluate(c, parameters, images.to(t), labels) for t in (torch.float32, torch.float64))
    inputs = {"in/images": images, "const/labels": labels.to(torch.int32), "dout/loss": torch.ones(())}
    inputs |= {"param/" + key: value for key, value in parameters.items()}
    save(folder, name, "vit", wide, narrow, config(c), inputs, 0)


def train(c, parameters, images, labels):
    """Losses, norms of gradients and final parameters, in the images' type."""
    p = leaves(parameters, images.dtype)
    groups = [{"params": [v for n, v in p.items() if n.endswith("weight") == d], "weight_decay": ADAMW["wd"] * d} for d in (True, False)]
    optimizer = torch.optim.AdamW(groups, betas=(ADAMW["b1"], ADAMW["b2"]), eps=ADAMW["eps"])
    losses, norms = [], []
    for i, rate in enumerate(RATES):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = F.cross_entropy(network(c, p, images[i % BATCHES]), labels[i % BATCHES])
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(p.values(), CLIP))
        optimizer.step()
        losses.append(loss.detach())
    out = {"out/losses": torch.stack(losses), "out/grad_norms": torch.stack(norms)}
    return out | {"out/final/" + key: value.detach() for key, value in p.items()}


def write_training(folder, name, c):
    parameters = draw(c, sum(("train " + name).encode()))
    images = torch.randn(BATCHES, 6, HEIGHT, WIDE, 3)
    labels = torch.arange(BATCHES * 6).reshape(BATCHES, 6) % CLASSES
    narrow, wide = (train(c, parameters, images.to(t), labels) for t in (torch.float32, torch.float64))
    more = {"optimizer": {"name": "adamw"} | ADAMW, "rates": RATES, "decayed": [n for n in parameters if n.endswith("weight")],
            "clip": [CLIP, "torch"], "steps": STEPS, "batches": BATCHES, "no_gradient": []}  # fmt: skip
    inputs = {"in/images": images, "const/labels": labels.to(torch.int32)}
    inputs |= {"param/" + key: value for key, value in parameters.items()}
    save(folder, name, "train", wide, narrow, config(c) | more, inputs, 2 * sum(RATES))


def main():
    models, trainings = (pathlib.Path(sys.argv[1]) / part for part in ("models", "train"))
    for folder in (models, trainings):
        folder.mkdir(parents=True, exist_ok=True)
    for name, case in CASES.items():
        write(models, name, PLAIN | case)
    for name in TRAINED:
        write_training(trainings, name, PLAIN | CASES[name])
    print(f"torch {torch.__version__}: {len(CASES) + len(TRAINED)} files")


main()
