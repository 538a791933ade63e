"""Compares Swin with torchvision's and timm's: writes fixtures of small random models, with image sizes that need
padding, whose logits, loss and gradients the C++ side must match. torchvision pads before the shift, timm after it. Not
part of `make test`; needs torch, torchvision, timm, safetensors.

    python tests/reference/swin_twin.py OUT [build/tests/run]
    python tests/reference/swin_twin.py --kept tests/reference/newer

With the test binary, the files are compared at once, as by REFERENCE_DIR=OUT build/tests/run -tc="reference: every*".
--kept writes only the files that are kept here.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import timm
import torch
import torchvision
from safetensors.torch import save_file
from timm.layers import SwiGLU
from timm.models.swin_transformer import SwinTransformer

# Grids of the stages, and special properties. `grid` is of the first stage.
TIMM = {
    "36px_w4": dict(grid=(9, 9), window=4, depths=(2, 2, 2), heads=(2, 2, 4)),  # 9, 5, 3: all odd, all padded
    "28px_w4": dict(grid=(7, 7), window=4, depths=(2, 2), heads=(2, 4)),  # 7, 4: padded and shifted; one window
    "44px_w7": dict(grid=(11, 11), window=7, depths=(2, 2, 1), heads=(2, 2, 2)),  # 11, 6, 3
    "32px_w4": dict(grid=(8, 8), window=4, depths=(2, 2), heads=(2, 4)),  # nothing to pad
    "40px_p2_w3": dict(grid=(20, 20), patch=2, window=3, depths=(3, 2, 1), heads=(2, 2, 2)),  # 20, 10, 5
    "36px_no_bias": dict(grid=(9, 9), window=5, depths=(2, 2), heads=(2, 2), qkv_bias=False),
}
TORCHVISION = {
    "tv_8_w7": dict(grid=(8, 8), window=7, depths=(2,), heads=(2,)),
    "tv_16_w7": dict(grid=(16, 16), window=7, depths=(2, 2), heads=(2, 2)),  # 16, 8: both shifted and padded
    "tv_12x20_w7": dict(grid=(12, 20), window=7, depths=(3,), heads=(2,)),
    "tv_10x17_w4": dict(grid=(10, 17), window=4, depths=(2, 2), heads=(2, 2)),  # 10 x 17, 5 x 9
    "tv_7x14_w7": dict(grid=(7, 14), window=7, depths=(2,), heads=(2,)),  # columns alone shift
    "tv_14x8_w4": dict(grid=(14, 8), window=4, depths=(2, 2), heads=(2, 2)),  # 14 x 8, 7 x 4: rows alone shift
    "tv_32_w4": dict(grid=(8, 8), window=4, depths=(2, 2), heads=(2, 4)),  # nothing to pad
    "tv_no_bias": dict(grid=(9, 9), window=5, depths=(2, 2), heads=(2, 2), qkv_bias=False),
}
SMALL = dict(patch=2, width=4, heads=(1,), depths=(2,), ratio=1, batch=2)
KEPT_TIMM = {
    "timm_8_w7": dict(grid=(8, 8), window=7) | SMALL,
    "timm_4x7_w4": dict(grid=(4, 7), window=4) | SMALL,  # columns alone shift and are padded
}
KEPT_TORCHVISION = {
    "torchvision_8_w7": dict(grid=(8, 8), window=7) | SMALL,
    "torchvision_12x20_w7": dict(grid=(12, 20), window=7) | SMALL,
    "torchvision_4x7_w4": dict(grid=(4, 7), window=4) | SMALL,
    "torchvision_7x6_w3": dict(grid=(7, 6), window=3) | SMALL | dict(depths=(2, 2), heads=(1, 2)),  # 4 x 3: rows shift
}
KEPT_GATED = {"timm_swiglu": dict(grid=(4, 4), window=2, gated=True) | SMALL}
CLASSES = 5


def timm_model(case):
    model = SwinTransformer(
        img_size=tuple(side * case["patch"] for side in case["grid"]), patch_size=case["patch"],
        window_size=case["window"], depths=case["depths"], num_heads=case["heads"], embed_dim=case["width"],
        mlp_ratio=case["ratio"], qkv_bias=case["qkv_bias"], num_classes=CLASSES, drop_path_rate=0,
        norm_layer=torch.nn.LayerNorm)
    for module in model.modules():
        if case["gated"] and hasattr(module, "mlp"):
            module.mlp = SwiGLU(module.dim, int(module.dim * case["ratio"]))
        if hasattr(module, "attn"):
            case["change"](module)
    return model


def torchvision_model(case):
    model = torchvision.models.SwinTransformer(
        [case["patch"]] * 2, case["width"], list(case["depths"]), list(case["heads"]), [case["window"]] * 2,
        mlp_ratio=case["ratio"], num_classes=CLASSES, stochastic_depth_prob=0, norm_layer=torch.nn.LayerNorm)
    if not case["qkv_bias"]:
        for module in model.modules():
            if hasattr(module, "qkv"):
                module.qkv.bias = None
    return model


RENAMED = (
    (r"^patch_embed\.proj\.", "patch_embed."),
    (r"^patch_embed\.norm\.", "stem.patch_out."),
    (r"^layers\.", "stages."),
    (r"downsample\.norm\.", "merge."),
    (r"downsample\.reduction", "reduction"),
    (r"^features\.0\.0\.", "patch_embed."),
    (r"^features\.0\.2\.", "stem.patch_out."),
    (r"^features\.(\d+)\.norm\.", lambda m: f"stages.{int(m[1]) // 2}.merge."),
    (r"^features\.(\d+)\.reduction", lambda m: f"stages.{int(m[1]) // 2}.reduction"),
    (r"^features\.(\d+)\.(\d+)\.", lambda m: f"stages.{int(m[1]) // 2}.blocks.{m[2]}."),
    (r"mlp\.0\.", "mlp.fc1."),
    (r"mlp\.3\.", "mlp.fc2."),
    (r"mlp\.fc1_g\.", "mlp.fc1."),
    (r"mlp\.fc1_x\.", "mlp.fc3."),
    (r"norm1\.", "attn.pre."),
    (r"norm2\.", "mlp.pre."),
    (r"relative_position_bias_table", "bias_table"),
    (r"^norm\.", "final."),
    (r"^head\.fc\.", "head."),
)
NORMS = re.compile(r"(stem\.patch_out|merge|attn\.pre|mlp\.pre|final)\.(weight|bias)$")


def our_name(name, value):
    """Normlab's (name, value) pairs for a parameter of timm or torchvision."""
    for old, new in RENAMED:
        name = re.sub(old, new, name)
    if norm := NORMS.search(name):
        name = name[:norm.start(2)] + {"weight": "gamma", "bias": "beta"}[norm[2]]
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
        for ours, gradient in our_name(name, parameter.grad):
            values["grad/" + ours] = gradient
    return values


def config(case, padding):
    norm = "layer_norm"
    none = lambda *sites: {site: "none" for site in sites}
    return {
        "image_size": [side * case["patch"] for side in case["grid"]],
        "channels": 3,
        "patch_size": case["patch"],
        "window": case["window"],
        "window_padding": padding,
        "embed_dim": case["width"],
        "depths": list(case["depths"]),
        "num_heads": list(case["heads"]),
        "mlp_ratio": case["ratio"],
        "num_classes": CLASSES,
        "qkv_bias": case["qkv_bias"],
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
    } | ({"mlp_form": "gated"} if case["gated"] else {}) | case["keys"]


def write(folder, name, case, padding, seed):
    case = dict(patch=4, width=12, ratio=2, batch=3, qkv_bias=True, gated=False, change=lambda block: None, keys={}) | case
    torch.manual_seed(seed)
    model = (timm_model if padding == "after_shift" else torchvision_model)(case)
    with torch.no_grad():
        for key, p in model.named_parameters():
            gain = our_name(key, p)[0][0].endswith("gamma")
            p.copy_(torch.randn_like(p) * (0.2 if gain or p.ndim < 2 else p[0].numel() ** -0.5) + float(gain))
            if "bias_table" in key:
                p.copy_(torch.randn_like(p) * 0.5)
            if "logit_scale" in key:
                p.copy_(torch.linspace(1, 6, p.numel()))  # the last is beyond the limit
            if key.endswith("key.gamma"):
                p.mul_(0.1)  # so that 100 times a product is no large number
    images = torch.randn(case["batch"], *(side * case["patch"] for side in case["grid"]), 3)
    labels = torch.arange(case["batch"]) % CLASSES
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
    metadata = {"op": "swin", "config": json.dumps(config(case, padding)), "atol": json.dumps(atol)}
    save_file(tensors, folder / f"{name}.safetensors", metadata)


def main():
    arguments = sys.argv[1:]
    kept = arguments[0] == "--kept"
    root = pathlib.Path(arguments[1 if kept else 0])
    folder = root / "swin"
    folder.mkdir(parents=True, exist_ok=True)
    sets = ((KEPT_TIMM, "after_shift"), (KEPT_TORCHVISION, "before_shift"), (KEPT_GATED, "after_shift"))
    if not kept:
        sets += ((TIMM, "after_shift"), (TORCHVISION, "before_shift"))
    cases = [(name, case, padding) for of, padding in sets for name, case in of.items()]
    for seed, (name, case, padding) in enumerate(cases):
        write(folder, name, case, padding, seed)
    print(f"timm {timm.__version__}, torchvision {torchvision.__version__}: {len(cases)} files in {folder}")
    if not kept and len(arguments) > 1:
        command = [arguments[1], "-tc=reference: every*"]
        sys.exit(subprocess.run(command, env=os.environ | {"REFERENCE_DIR": str(root)}).returncode)


if __name__ == "__main__":
    main()
