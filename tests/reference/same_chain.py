"""Checks that torchvision and timm make the same batches as normlab from the same random draws.

Crops and resizes with torchvision on Pillow images, flips, normalises and erases with its functions, mixes with
torchvision's MixUp and CutMix (their transform, given lambda and box) or timm's loops, and makes targets with
timm's mixup_target or torchvision's rule and the smoothing of torch's cross-entropy. Exits 1 if an image differs by
more than 3e-6 or a target by more than 1e-6.

    pip install torch torchvision timm pillow safetensors numpy
    NORMLAB_CHAIN_OUT=chain build/tests/run -tc="twin: export augmented batches"
    python tests/reference/same_chain.py chain/*.safetensors
"""

import json
import sys

import numpy as np
import torch
import torchvision.transforms.v2.functional as F
from PIL import Image
from safetensors import safe_open
from timm.data.mixup import mixup_target
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import CutMix, MixUp

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def single(pixels, t, size):
    """One image through crop, resize, flip, normalisation and erasing, [3, H, W]."""
    top, left, height, width = t["crop"].tolist()
    method = InterpolationMode.BICUBIC if t["bicubic"] else InterpolationMode.BILINEAR
    image = F.resized_crop(Image.fromarray(pixels), top, left, height, width, size, interpolation=method)
    if t["flip"]:
        image = F.horizontal_flip(image)
    image = F.normalize(F.to_dtype(F.pil_to_tensor(image), torch.float32, scale=True), MEAN, STD)
    top, left, height, width = t["erased"].tolist()
    if height > 0:
        noise = torch.from_numpy(t["noise"]).permute(2, 0, 1)[:, :height, :width]
        image = F.erase(image, top, left, height, width, noise)
    return image


def mix_torchvision(x, labels, t):
    """torchvision's transforms for a whole batch, with one lambda."""
    lam, (top, left, height, width) = float(t["lambda"][0]), t["cut_box"][0].tolist()
    if t["cut"][0]:
        mixer = CutMix(num_classes=10)
        params = {"box": (left, top, left + width, top + height), "lam_adjusted": lam}
    else:
        mixer = MixUp(num_classes=10)
        params = {"lam": lam}
    params |= {"labels": labels, "batch_size": len(x)}
    return mixer.transform(x, params), mixer.transform(labels, params)


def mix_one_by_one(x, t):
    """timm's loop over images (its partner is x[B - 1 - i]), with the recorded partner."""
    out = x.clone()
    for i, j in enumerate(t["partner"].tolist()):
        lam, (top, left, height, width) = float(t["lambda"][i]), t["cut_box"][i].tolist()
        if t["cut"][i]:
            out[i][:, top : top + height, left : left + width] = x[j][:, top : top + height, left : left + width]
        else:
            out[i] = x[i] * lam + x[j] * (1 - lam)
    return out


def compare(path):
    with safe_open(path, framework="numpy") as f:
        about = json.loads(f.metadata()["normlab.chain"])
        tensors = {name: f.get_tensor(name) for name in f.keys()}
    drawn = {name[6:]: value for name, value in tensors.items() if name.startswith("drawn/")}
    worst, worst_target = 0.0, 0.0
    steps, batch = drawn["index"].shape
    for step in range(steps):
        t = {name: value[step] for name, value in drawn.items()}
        ours = torch.from_numpy(tensors["out/images"][step]).permute(0, 3, 1, 2)
        size = list(ours.shape[2:])
        x = torch.stack(
            [
                single(tensors["in/pixels"][t["index"][i]], {name: value[i] for name, value in t.items()}, size)
                for i in range(batch)
            ]
        )
        labels = torch.from_numpy(tensors["in/labels"][t["index"]]).long()
        lam = torch.from_numpy(t["lambda"]).unsqueeze(1)
        expected = [(batch - 1 - i) if about["dialect"] == "timm" else (i - 1) % batch for i in range(batch)]
        assert t["partner"].tolist() == expected, path
        if about["dialect"] == "torchvision" and about["scope"] == "batch":
            mixed, targets = mix_torchvision(x, labels, t)
            targets = targets * (1 - about["smoothing"]) + about["smoothing"] / 10
        else:
            mixed = mix_one_by_one(x, t)
            if about["dialect"] == "timm":
                targets = mixup_target(labels, 10, lam, about["smoothing"])
            else:
                soft = torch.nn.functional.one_hot(labels, 10) * (1 - about["smoothing"]) + about["smoothing"] / 10
                targets = soft * lam + soft.roll(1, 0) * (1 - lam)
        worst = max(worst, (mixed - ours).abs().max().item())
        worst_target = max(worst_target, np.abs(targets.numpy() - tensors["out/targets"][step]).max())
    cut, plain = int(drawn["cut"].sum()), int((drawn["erased"][..., 2] > 0).sum())
    print(f"{path}: {steps * batch} images ({plain} erased, {cut} cut), off by at most {worst:.2g}, targets {worst_target:.2g}")
    return worst <= 3e-6 and worst_target <= 1e-6


if __name__ == "__main__":
    sys.exit(0 if all([compare(path) for path in sys.argv[1:]]) else 1)
