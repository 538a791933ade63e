"""Compares Swin with timm's: writes fixtures of small random timm models, with image sizes that need padding, whose
logits, loss and gradients the C++ side must match. Not part of `make test`; needs torch, timm, safetensors.

    python tests/reference/swin_twin.py OUT [build/tests/run]

With the test binary, the files are compared at once, as by REFERENCE_DIR=OUT build/tests/run -tc="reference: every*".
"""

import json
import os
import pathlib
import subprocess
import sys

import timm
import torch
from safetensors.torch import save_file
from timm.models.swin_transformer import SwinTransformer

CASES = {  # grids of the stages, and special properties
    "36px_w4": dict(img_size=36, window_size=4, depths=(2, 2, 2), num_heads=(2, 2, 4)),  # 9, 5, 3: all odd, all padded
    "28px_w4": dict(img_size=28, window_size=4, depths=(2, 2), num_heads=(2, 4)),  # 7, 4: padded and shifted; one window
    "44px_w7": dict(img_size=44, window_size=7, depths=(2, 2, 1), num_heads=(2, 2, 2)),  # 11, 6, 3
    "32px_w4": dict(img_size=32, window_size=4, depths=(2, 2), num_heads=(2, 4)),  # nothing to pad
    "40px_p2_w3": dict(img_size=40, patch_size=2, window_size=3, depths=(3, 2, 1), num_heads=(2, 2, 2)),  # 20, 10, 5
    "36px_no_bias": dict(img_size=36, window_size=5, depths=(2, 2), num_heads=(2, 2), qkv_bias=False),
}
CLASSES, WIDTH, BATCH = 5, 12, 3


def our_name(name, value):
    """Normlab's (name, value) pairs for a parameter of timm."""
    if name == "patch_embed.proj.weight":
        return [("patch_embed.weight", value.permute(0, 2, 3, 1).reshape(value.shape[0], -1))]
    for old, new in (
        ("patch_embed.proj.", "patch_embed."),
        ("patch_embed.norm.weight", "stem.patch_out.gamma"),
        ("patch_embed.norm.bias", "stem.patch_out.beta"),
        ("layers.", "stages."),
        ("downsample.norm.weight", "merge.gamma"),
        ("downsample.norm.bias", "merge.beta"),
        ("downsample.reduction", "reduction"),
        ("norm1.weight", "attn.pre.gamma"),
        ("norm1.bias", "attn.pre.beta"),
        ("norm2.weight", "mlp.pre.gamma"),
        ("norm2.bias", "mlp.pre.beta"),
        ("relative_position_bias_table", "bias_table"),
        ("head.fc.", "head."),
    ):
        name = name.replace(old, new)
    if name in ("norm.weight", "norm.bias"):
        name = {"norm.weight": "final.gamma", "norm.bias": "final.beta"}[name]
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
        for ours, gradient in our_name(name, parameter.grad):
            values["grad/" + ours] = gradient
    return values


def config(case):
    norm = "layer_norm"
    none = lambda *sites: {site: "none" for site in sites}
    return {
        "image_size": [case["img_size"]] * 2,
        "channels": 3,
        "patch_size": case.get("patch_size", 4),
        "window": case["window_size"],
        "embed_dim": WIDTH,
        "depths": list(case["depths"]),
        "num_heads": list(case["num_heads"]),
        "mlp_ratio": 2,
        "num_classes": CLASSES,
        "qkv_bias": case.get("qkv_bias", True),
        "head_scale": "none",
        "residual_scale": False,
        "layer_scale": "none",
        "gelu": "erf",
        "eps": 1e-5,
        "bn_eps": 1e-5,
        "bn_momentum": 0.1,
        "mode": "train",
        "loss": "softmax_hard",
        "stem": {"patch_out": norm},
        "attn": {"pre": norm} | none("query", "key", "value", "inner", "out", "post"),
        "mlp": {"pre": norm} | none("hidden", "inner", "out", "post"),
        "merge": norm,
        "final": norm,
    }


def write(folder, name, case, seed):
    torch.manual_seed(seed)
    model = SwinTransformer(
        embed_dim=WIDTH, mlp_ratio=2, num_classes=CLASSES, drop_path_rate=0, norm_layer=torch.nn.LayerNorm, **case
    )
    with torch.no_grad():
        for key, p in model.named_parameters():
            gain = key.endswith("weight") and "norm" in key
            p.copy_(torch.randn_like(p) * (0.2 if gain or p.ndim < 2 else p[0].numel() ** -0.5) + float(gain))
            if "bias_table" in key:
                p.copy_(torch.randn_like(p) * 0.5)
    images = torch.randn(BATCH, case["img_size"], case["img_size"], 3)
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
    for key, value in model.named_parameters():
        for ours, v in our_name(key, value.detach().float()):
            tensors["param/" + ours] = v.contiguous().clone()
    metadata = {"op": "swin", "config": json.dumps(config(case)), "atol": json.dumps(atol)}
    save_file(tensors, folder / f"{name}.safetensors", metadata)


def main():
    folder = pathlib.Path(sys.argv[1]) / "swin"
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, case) in enumerate(CASES.items()):
        write(folder, name, case, seed)
    print(f"timm {timm.__version__}: {len(CASES)} files in {folder}")
    if len(sys.argv) > 2:
        command = [sys.argv[2], "-tc=reference: every*"]
        sys.exit(subprocess.run(command, env=os.environ | {"REFERENCE_DIR": sys.argv[1]}).returncode)


main()
