"""Compares networks in timm and normlab: the same weights and photographs must give the same logits.

    timm_twin.py --binary build/normlab --photos FOLDER [--images 16] [--only NAME|files ...] [--work FOLDER]
        creates each network with random weights, passes its state dict through `normlab convert`, `normlab eval` and
        back, and prints the largest difference of a logit and of a returned weight; exit code 1 above 1e-4
    timm_twin.py --fixture FOLDER
        writes small networks with images and logits, for the tests

Needs timm, torch, torchvision, safetensors. FOLDER contains photographs in class folders.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import timm
import torch
from safetensors.torch import load_file, save_file
from timm.data import create_transform
from timm.layers import Attention, SwiGLU
from timm.models.eva import Eva
from torchvision.datasets import ImageFolder

TOLERANCE = 1e-4
IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
HALF = ([0.5] * 3, [0.5] * 3)
TOKEN = {"image_size": 224, "num_classes": 1000, "pool": "token", "pos_embed_class": True}
GAP = {"image_size": 224, "num_classes": 1000, "pool": "gap"}
POOLED = {"base": "pre_pre", "final": "none", "pooled": "layer_norm"}


class GatedAttention(Attention):
    def __init__(self, *arguments, **keys):
        super().__init__(*arguments, gated=True, **keys)


# name: timm's constructor, normlab's name, normalization of the images.
MODELS = {
    "vit_tiny_patch16_224": ({}, TOKEN | {"variant": "Ti/16"}, "half"),
    "vit_small_patch16_224": ({}, TOKEN | {"variant": "S/16"}, "half"),
    "deit_small_patch16_224": ({}, TOKEN | {"variant": "S/16"}, "imagenet"),
    "deit3_small_patch16_224": (
        {},
        TOKEN | {"variant": "S/16", "pos_embed_class": False, "layer_scale": "channel"},
        "imagenet",
    ),
    "deit_small_distilled_patch16_224": ({}, TOKEN | {"variant": "S/16", "distill_token": True}, "imagenet"),
    "swin_tiny_patch4_window7_224": (
        {},
        {"kind": "swin", "variant": "Swin-T", "image_size": 224, "num_classes": 1000},
        "imagenet",
    ),
    "vit_small_patch16_gap_224": (
        {"base": "vit_small_patch16_224", "class_token": False, "global_pool": "avg"},
        GAP | {"variant": "S/16", "placement": POOLED},
        "half",
    ),
    "vit_small_patch16_gap_norm_first_224": (
        {"base": "vit_small_patch16_224", "class_token": False, "global_pool": "avg", "fc_norm": False},
        GAP | {"variant": "S/16"},
        "half",
    ),
    "vit_small_patch16_tanh_224": (
        {"base": "vit_small_patch16_224", "act_layer": "gelu_tanh", "no_embed_class": True},
        TOKEN | {"variant": "S/16", "pos_embed_class": False, "gelu": "tanh"},
        "half",
    ),
    "vit_small_patch16_reg4_224": (
        {"base": "vit_small_patch16_224", "reg_tokens": 4, "no_embed_class": True},
        TOKEN | {"variant": "S/16", "pos_embed_class": False, "registers": 4},
        "half",
    ),
    "vit_small_patch16_dinov3": (
        {"global_pool": "token", "num_classes": 1000, "img_size": 224},
        GAP | {"variant": "S/16", "pool": "token", "pos_embed": "none", "rotary": "dinov3", "registers": 4,
               "qkv_bias": False, "layer_scale": "channel", "placement": {"base": "pre_pre", "**.eps": 1e-5}},
        "imagenet",
    ),
    "eva02_small_patch14_224": (
        {"attn_type": "rope", "global_pool": "token", "num_classes": 1000},
        TOKEN | {"variant": "S/14", "mlp": "gated", "mlp_dim": 1024, "rotary": "eva02"},
        "half",
    ),
    "vit_small_patch16_swiglu_224": (
        {"base": "vit_small_patch16_224", "mlp_layer": SwiGLU, "act_layer": "silu"},
        TOKEN | {"variant": "S/16", "mlp": "gated"},
        "half",
    ),
    "vit_small_patch16_gated_224": (
        {"base": "vit_small_patch16_224", "attn_layer": GatedAttention},
        TOKEN | {"variant": "S/16", "placement": {"base": "pre_pre", "attn_gate": "channel"}},
        "half",
    ),
}


def make(name, arguments):
    """The network with perturbed gains, biases, tokens and positions, so that no two are equal."""
    arguments = dict(arguments)
    torch.manual_seed(sum(name.encode()))
    model = timm.create_model(arguments.pop("base", name), pretrained=False, **arguments).eval()
    with torch.no_grad():
        for key, value in model.named_parameters():
            if value.ndim == 1 or any(word in key for word in ("token", "pos_embed", "bias_table")):
                value.add_(torch.randn_like(value) * 0.2)
            elif "head" in key:
                value.normal_(std=0.05)
            elif "qkv" in key and isinstance(model, Eva):  # or scores are so small that no turn matters
                value.normal_(std=value.shape[1] ** -0.5)
    return model


def photographs(folder, count, size):
    """uint8 [count, size, size, 3], one image per class folder, resized and cropped as in timm."""
    from PIL import Image
    from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Resize

    files = [min(f) for c in sorted(folder.iterdir()) if (f := [*c.glob("*.JPEG"), *c.glob("*.jpg")])]
    transform = Compose([Resize(int(size / 0.9), InterpolationMode.BICUBIC), CenterCrop(size)])
    return np.stack([np.asarray(transform(Image.open(f).convert("RGB"))) for f in files[:count]])


def logits_of(model, images, normalization):
    mean, std = (np.array(v, np.float32) for v in {"half": HALF, "imagenet": IMAGENET}[normalization])
    pixels = ((images.astype(np.float32) / 255 - mean) / std).transpose(0, 3, 1, 2)
    with torch.no_grad():
        return model(torch.from_numpy(np.ascontiguousarray(pixels))).numpy()


def flax_weights(state, heads, augreg):
    """A state dict with the names and layout of Big Vision or AugReg: [in, out], heads separate."""
    attention, second, mlp = ("MultiHeadDotProductAttention_1", 2, 3) if augreg else ("MultiHeadDotProductAttention_0", 1, 0)
    w = {k: v.numpy() for k, v in state.items()}
    dim = w["norm.weight"].shape[0]
    out = {
        "embedding/kernel": w["patch_embed.proj.weight"].transpose(2, 3, 1, 0),
        "embedding/bias": w["patch_embed.proj.bias"],
        ("Transformer/posembed_input/" if augreg else "") + ("pos_embedding"): w["pos_embed"],
        "Transformer/encoder_norm/scale": w["norm.weight"],
        "Transformer/encoder_norm/bias": w["norm.bias"],
        "head/kernel": w["head.weight"].T,
        "head/bias": w["head.bias"],
    }
    if "cls_token" in w:
        out["cls"] = w["cls_token"]
    for i in range(1 + max(int(k.split(".")[1]) for k in w if k.startswith("blocks."))):
        b, t = f"blocks.{i}.", f"Transformer/encoderblock_{i}/"
        for n, norm in ((0, "norm1"), (second, "norm2")):
            out[f"{t}LayerNorm_{n}/scale"] = w[f"{b}{norm}.weight"]
            out[f"{t}LayerNorm_{n}/bias"] = w[f"{b}{norm}.bias"]
        for j, part in enumerate(("query", "key", "value")):
            rows = slice(j * dim, (j + 1) * dim)
            out[f"{t}{attention}/{part}/kernel"] = w[f"{b}attn.qkv.weight"][rows].T.reshape(dim, heads, -1)
            out[f"{t}{attention}/{part}/bias"] = w[f"{b}attn.qkv.bias"][rows].reshape(heads, -1)
        out[f"{t}{attention}/out/kernel"] = w[f"{b}attn.proj.weight"].T.reshape(heads, -1, dim)
        out[f"{t}{attention}/out/bias"] = w[f"{b}attn.proj.bias"]
        for j in (0, 1):
            out[f"{t}MlpBlock_{mlp}/Dense_{j}/kernel"] = w[f"{b}mlp.fc{j + 1}.weight"].T
            out[f"{t}MlpBlock_{mlp}/Dense_{j}/bias"] = w[f"{b}mlp.fc{j + 1}.bias"]
    return {("" if augreg else "params/") + k: np.ascontiguousarray(v) for k, v in out.items()}


class Program:
    def __init__(self, binary, work):
        self.binary, self.work = binary, work

    def __call__(self, *arguments):
        done = subprocess.run([self.binary, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, arguments))}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def logits(self, source, scheme, model, images, normalization, *more):
        self("convert", source, self.work / "ours.safetensors", "--from", scheme, "--model", json.dumps(model))
        self("eval", "--weights", self.work / "ours.safetensors", "--data", images, "--normalize", normalization,
             "--batch", 8, "--logits", self.work / "logits.npy", *more)  # fmt: skip
        return np.load(self.work / "logits.npy")


def logits_from_files(program, photos, row):
    """All photographs; each side decodes, resizes and crops them."""
    folder = ImageFolder(photos, create_transform(224, is_training=False, interpolation="bicubic", crop_pct=0.9, mean=[0.5] * 3, std=[0.5] * 3))
    model = make("vit_tiny_patch16_224", {"num_classes": len(folder.classes)})
    source = program.work / "timm.safetensors"
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, source, {"format": "pt"})
    config = {"variant": "Ti/16", "image_size": 224, "num_classes": len(folder.classes), "pool": "token", "pos_embed_class": True}
    ours = program.logits(source, "timm", config, photos.resolve(), "half", "--layout", "image_folder", "--slice", "train",
                          "--crop", "center", "--crop-pct", 0.9, "--resize", "bicubic")  # fmt: skip
    with torch.inference_mode():
        theirs = torch.cat([model(torch.stack([folder[i][0] for i in range(k, min(k + 20, len(folder)))])) for k in range(0, len(folder), 20)])
    row(f"{len(folder)} files, vit_tiny_patch16_224", theirs.numpy(), ours, "-")


def compare(program, photos, count, only):
    images = photographs(photos, count, 224)
    np.save(program.work / "images.npy", images)
    worst = 0.0
    print(f"{len(images)} photographs, timm {timm.__version__}, torch {torch.__version__}")
    print(f"{'network':40} {'logits within':>13} {'of up to':>9} {'top-1 equal':>11}  weights back")

    def row(label, theirs, ours, back):
        nonlocal worst
        worst = max(worst, float(np.abs(ours - theirs).max()))
        same = np.mean(ours.argmax(1) == theirs.argmax(1))
        print(f"{label:40} {np.abs(ours - theirs).max():13.2e} {np.abs(theirs).max():9.3f} {same:11.0%}  {back}")

    for name, (arguments, config, normalization) in MODELS.items():
        if only and name not in only:
            continue
        model = make(name, arguments)
        state = {k: v.contiguous() for k, v in model.state_dict().items()}
        theirs = logits_of(model, images, normalization)
        source = program.work / "timm.safetensors"
        save_file(state, source, {"format": "pt"})
        ours = program.logits(source, "timm", config, program.work / "images.npy", normalization)
        program("convert", program.work / "ours.safetensors", program.work / "back.safetensors", "--to", "timm")
        back = load_file(program.work / "back.safetensors")
        model.load_state_dict(back, strict=True)
        same = all(torch.equal(back[k], state[k]) for k in state)
        row(name, theirs, ours, "equal" if same else "DIFFERENT")
        if not same:
            worst = float("inf")
        # LayerNorm, GELU and sites agree: the same network under Flax's names.
        if arguments.get("act_layer") != "gelu_tanh" and name != "vit_tiny_patch16_224":
            continue
        augreg = name == "vit_tiny_patch16_224"
        scheme = "augreg" if augreg else "big_vision"
        flax = flax_weights(state, config_heads(model), augreg)
        np.savez(program.work / "flax.npz", **flax)
        ours = program.logits(program.work / "flax.npz", scheme, config, program.work / "images.npy", normalization)
        if augreg:  # timm's uses erf; written back, the file would imply tanh, which normlab refuses
            row(f"  as {scheme}", theirs, ours, "-")
            continue
        program("convert", program.work / "ours.safetensors", program.work / "back.npz", "--to", scheme)
        back = np.load(program.work / "back.npz")
        flax = {k.removeprefix("params/"): v for k, v in flax.items()}
        same = set(back) == set(flax) and all(np.array_equal(back[k], flax[k]) for k in flax)
        row(f"  as {scheme}", theirs, ours, "equal" if same else "DIFFERENT")
        if not same:
            worst = float("inf")
    if not only or "files" in only:
        logits_from_files(program, photos, row)
    return worst


def config_heads(model):
    return model.blocks[0].attn.num_heads


def fixture(folder):
    """Networks of width 8 in the formats of timm, Big Vision and AugReg, with all images and logits in one file."""
    folder.mkdir(parents=True, exist_ok=True)
    images = np.random.RandomState(1).randint(0, 256, (4, 8, 12, 3), np.uint8)
    sizes = {"patch_size": 4, "embed_dim": 8, "depth": 2, "num_heads": 2, "num_classes": 5}
    token = {"image_size": [8, 12], "pool": "token", **sizes}
    norms = {"init_values": 1e-2, "qk_norm": True, "scale_attn_norm": True, "scale_mlp_norm": True}
    sites = {word: "layer_norm" for word in ("pre", "query", "key", "inner")}
    facts, expected = {}, {"images": torch.from_numpy(images)}

    def write(name, arguments, config, augreg=None):
        model = make(name, {"base": "vit_tiny_patch16_224", "img_size": (8, 12), **sizes, **arguments})
        state = {k: v.contiguous() for k, v in model.state_dict().items()}
        expected[f"logits/{name}"] = torch.from_numpy(logits_of(model, images, "half"))
        facts[name] = json.dumps(config)
        if augreg is None:
            save_file(state, folder / f"{name}.safetensors", {"format": "pt"})
        else:
            np.savez_compressed(folder / f"{name}.npz", **flax_weights(state, sizes["num_heads"], augreg))

    write("timm_vit", {}, token | {"pos_embed_class": True})
    write("timm_deit3", {"no_embed_class": True, **norms},
          token | {"layer_scale": "channel",
                   "placement": {"base": "pre_pre", "attn": sites, "mlp": {k: sites[k] for k in ("pre", "inner")}}})  # fmt: skip
    write("timm_gap", {"class_token": False, "global_pool": "avg"}, token | {"pool": "gap", "placement": POOLED})
    write("big_vision", {"no_embed_class": True, "act_layer": "gelu_tanh"}, token | {"gelu": "tanh"}, augreg=False)
    write("augreg", {"act_layer": "gelu_tanh", "depth": 1},
          token | {"gelu": "tanh", "pos_embed_class": True, "depth": 1}, augreg=True)  # fmt: skip
    write("timm_swiglu", {"mlp_layer": SwiGLU, "act_layer": "silu", "scale_mlp_norm": True, "depth": 1},
          token | {"pos_embed_class": True, "depth": 1, "mlp": "gated",
                   "placement": {"base": "pre_pre", "mlp": {k: sites[k] for k in ("pre", "inner")}}})  # fmt: skip
    write("timm_gated", {"attn_layer": GatedAttention, "depth": 1},
          token | {"pos_embed_class": True, "depth": 1,
                   "placement": {"base": "pre_pre", "attn_gate": "channel"}})  # fmt: skip
    write("timm_distilled", {"base": "deit_tiny_distilled_patch16_224", "depth": 1},
          token | {"pos_embed_class": True, "distill_token": True, "depth": 1})  # fmt: skip
    registers = {"reg_tokens": 3, "depth": 1}
    write("timm_registers", registers | {"no_embed_class": True}, token | {"registers": 3, "depth": 1})
    # The positions of registers become part of the registers, so the weights do not come back as they were.
    write("timm_placed_registers", registers, token | {"pos_embed_class": True, "registers": 3, "depth": 1})
    write("timm_dinov3", {"base": "vit_small_patch16_dinov3", "global_pool": "token"},
          token | {"pos_embed": "none", "rotary": "dinov3", "registers": 4, "qkv_bias": False,
                   "layer_scale": "channel", "placement": {"base": "pre_pre", "**.eps": 1e-5}})  # fmt: skip
    eva02 = {"base": "eva02_tiny_patch14_224", "global_pool": "token", "mlp_ratio": 2, "ref_feat_shape": (4, 3), "depth": 1}
    of_eva02 = {"pos_embed_class": True, "rotary": {"dialect": "eva02", "grid": [4, 3]}, "mlp": "gated", "mlp_dim": 16, "depth": 1}
    write("timm_eva02", eva02 | {"attn_type": "rope"}, token | of_eva02)
    # Its biases of q and v are tensors of their own, and k has none.
    write("timm_eva02_biases", eva02, token | of_eva02)
    # Shifted windows, and one stage with an odd side.
    swin = {"patch_size": 2, "embed_dim": 8, "depths": [2, 1], "num_heads": [2, 4], "mlp_ratio": 1, "num_classes": 5}
    sizes = {**swin, "window_size": 2, "base": "swin_tiny_patch4_window7_224"}
    write("timm_swin", {}, {"kind": "swin", "image_size": [8, 12], "window": 2, **swin})
    save_file(expected, folder / "expected.safetensors", facts | {"timm": timm.__version__})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/normlab")
    parser.add_argument("--photos", type=pathlib.Path)
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--fixture", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.fixture:
        return fixture(arguments.fixture)
    if not arguments.photos:
        parser.error("--photos: a folder of photographs in class folders")
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or pathlib.Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        worst = compare(Program(arguments.binary, work), arguments.photos, arguments.images, arguments.only)
    print(f"largest difference {worst:.2e}, allowed {TOLERANCE:.0e}")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
