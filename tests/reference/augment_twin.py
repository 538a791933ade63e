"""Compares the operations of RandAugment, AutoAugment, TrivialAugment and ColorJitter with the sources' code on Pillow
images, for random photographs, sizes and arguments. No pixel value may differ.

    augment_twin.py [--rounds 200] [--seed 0] [--hsv] [--deepvoltaire autoaug.py] [--ildoonee randomaug.py]

The sources are torchvision, timm and the files of tests/lab/data/ops/policy_golden.py.

--hsv also converts each of the 2^24 colours to Pillow's HSV, rotates the hue and converts it back. Builds the
operations into a library with `c++` (or CXX). Prints the rounds and compared values per operation; exit code 1 if one
differs. Needs torch, torchvision, timm, Pillow."""

import argparse
import ctypes
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from PIL import Image
from timm.data import auto_augment as timm_augment
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F
from torchvision.transforms import v2
from torchvision.transforms.autoaugment import RandAugment, _apply_op

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lab/data/ops"))
from policy_golden import SIGNED, module_of, torchvision_apply, torchvision_share, with_sign  # noqa: E402

DIALECTS = {"torchvision": 2, "timm": 3, "ildoonee": 4}
OPS = (
    "Identity AutoContrast Equalize Invert Rotate Posterize Solarize SolarizeAdd Color Contrast Brightness Sharpness "
    "ShearX ShearY TranslateX TranslateY Cutout"
).split()
METHODS = {"nearest": 0, "bilinear": 1, "bicubic": 2}
PILLOW = {"nearest": Image.NEAREST, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}


def library():
    sources = [*(ROOT / "experiments/lab/data/ops").glob("*.cpp"), ROOT / "tests/reference/augment_twin.cpp"]
    sources += [ROOT / "experiments/lab/data/draws.cpp", ROOT / "experiments/lab/descriptor/policy_rules.cpp"]
    sources += [ROOT / "core/error.cpp", ROOT / "core/random.cpp"]
    out = pathlib.Path(tempfile.mkdtemp()) / "twin.so"
    flags = "-std=c++20 -O3 -march=native -ffp-contract=off -fno-trapping-math -shared -fPIC".split()
    subprocess.run([os.environ.get("CXX", "c++"), *flags, f"-I{ROOT}", *map(str, sources), "-o", str(out)], check=True)
    lib = ctypes.CDLL(str(out))
    lib.twin_argument.restype = ctypes.c_double
    return lib


def ours(lib, dialect, increasing, op, argument, method, fill, image, corner=(0, 0)):
    out = image.copy()
    lib.twin_randaugment(
        DIALECTS[dialect], int(increasing), OPS.index(op), ctypes.c_double(argument), METHODS[method],
        (ctypes.c_int * 3)(*fill), (ctypes.c_int * 2)(*corner), out.ctypes.data_as(ctypes.c_void_p), *image.shape[:2],
    )  # fmt: skip
    return out


def level_argument(lib, dialect, increasing, op, level, negative, image):
    return lib.twin_argument(
        DIALECTS[dialect], int(increasing), OPS.index(op), ctypes.c_double(level), int(negative), *image.shape[:2]
    )


def photo(rng):
    h, w = (int(rng.integers(1, 4)) if rng.random() < 0.1 else int(rng.integers(3, 260)) for _ in range(2))
    kind = rng.integers(4)
    if kind == 0:
        return rng.integers(0, 256, (h, w, 3)).astype(np.uint8)
    if kind == 1:
        return np.full((h, w, 3), rng.integers(0, 256, 3), np.uint8)
    y, x = np.mgrid[0:h, 0:w] / max(h, w)
    base = np.stack([90 + 120 * x - 30 * y, 60 + 80 * y + 40 * np.sin(6 * x), 140 - 90 * x * y], -1)
    if kind == 2:
        base += rng.standard_normal((h, w, 3)) * 9
    return np.clip(base, 0, 255).astype(np.uint8)


class Tally:
    def __init__(self):
        self.rounds, self.values, self.differences = {}, {}, []

    def see(self, name, got, expected, what):
        self.rounds[name] = self.rounds.get(name, 0) + 1
        self.values[name] = self.values.get(name, 0) + expected.size
        off = np.abs(got.astype(int) - expected.astype(int))
        if off.any():
            self.differences.append(f"{name} {what} {got.shape}: {np.count_nonzero(off)} values, up to {off.max()}")


def torchvision_round(lib, rng, tally):
    image = photo(rng)
    op = str(rng.choice([o for o in OPS if o not in ("SolarizeAdd", "Cutout")]))
    method, fill = str(rng.choice(list(METHODS))), [int(v) for v in rng.integers(0, 256, 3)]
    index, negative = int(rng.integers(31)), bool(rng.integers(2))
    space = RandAugment()._augmentation_space(31, image.shape[:2])
    theirs = 0.0
    if op in space:
        magnitudes, signed = space[op]
        theirs = float(magnitudes[index]) if magnitudes.ndim else 0.0
        negative = negative and signed
        theirs = -theirs if negative else theirs
        mine = level_argument(lib, "torchvision", False, op, index, negative, image)
        # The older transforms count thresholds down from 255; the newer ones (used here) multiply 255 by a share.
        if abs(mine - theirs) > 1e-4:
            tally.differences.append(f"torchvision {op}: argument {mine} here, {theirs} there")
    got = ours(lib, "torchvision", False, op, theirs, method, fill, image)
    expected = _apply_op(Image.fromarray(image), op, theirs, InterpolationMode(method), fill)
    tally.see(f"torchvision {op}", got, np.asarray(expected), (index, negative, method))


def timm_round(lib, rng, tally):
    image = photo(rng)
    increasing, method = bool(rng.integers(2)), str(rng.choice(list(METHODS)))
    fill = (124, 116, 104)
    names = timm_augment._RAND_INCREASING_TRANSFORMS if increasing else timm_augment._RAND_TRANSFORMS
    names = [n for n in names if n != "Cutout"]
    name = str(rng.choice(names))
    op = name.removesuffix("Increasing").removesuffix("Rel")
    level = float(rng.uniform(0, 10))
    # The level function draws the sign; it is called until both signs have occurred.
    function, seen = timm_augment.LEVEL_TO_ARG[name], set()
    for _ in range(40):
        arguments = function(level, {"translate_pct": 0.45}) if function else ()
        seen.add(arguments)
    for arguments in sorted(seen):
        value = float(arguments[0]) if arguments else 0.0
        levels = [level_argument(lib, "timm", increasing, op, level, n, image) for n in (False, True)]
        if arguments and min(abs(v - value) for v in levels) > 1e-12:
            tally.differences.append(f"timm {name}: argument {levels} here, {value} there")
        got = ours(lib, "timm", increasing, op, value, method, fill, image)
        if name.startswith("Posterize") and value == 0:  # Pillow 13 refuses 0 bits
            expected = np.zeros_like(image)
        else:
            kwargs = {"fillcolor": fill, "resample": PILLOW[method]} if op in GEOMETRY else {}
            expected = np.asarray(timm_augment.NAME_TO_OP[name](Image.fromarray(image), *arguments, **kwargs))
        tally.see(f"timm {name}", got, expected, (level, value, method))


def fixed(lib, name, *arguments, fill, image):
    """Of twin_autoaugment and twin_trivialaugment."""
    out = image.copy()
    getattr(lib, name)(*arguments, (ctypes.c_int * 3)(*fill), out.ctypes.data_as(ctypes.c_void_p), *image.shape[:2])
    return out


def torchvision_fixed_round(lib, rng, tally):
    image, method, fill = photo(rng), str(rng.choice(list(METHODS))), [int(v) for v in rng.integers(0, 256, 3)]
    auto = bool(rng.integers(2))
    bins = 10 if auto else 31
    policy = (v2.AutoAugment if auto else v2.TrivialAugmentWide)(interpolation=InterpolationMode(method), fill=fill)
    op = str(rng.choice([o for o in policy._AUGMENTATION_SPACE if o != "Identity"]))
    index, negative = int(rng.integers(bins)), bool(rng.integers(2)) and op in SIGNED
    value = torchvision_share(policy, op, bins, index, image.shape[:2]) * (-1 if negative else 1)
    ours_of = (OPS.index(op), index, int(negative), METHODS[method])
    got = (fixed(lib, "twin_autoaugment", 2, *ours_of, fill=fill, image=image) if auto
           else fixed(lib, "twin_trivialaugment", *ours_of, fill=fill, image=image))  # fmt: skip
    expected = np.asarray(torchvision_apply(policy, Image.fromarray(image), op, value))
    tally.see(f"{'auto' if auto else 'trivial'} {op}", got, expected, (index, negative, method))


def deepvoltaire_round(lib, rng, tally, found):
    image, fill = photo(rng), tuple(int(v) for v in rng.integers(0, 256, 3))
    op = str(rng.choice([o for o in OPS if o not in ("Identity", "SolarizeAdd", "Cutout")]))
    index, negative = int(rng.integers(10)), bool(rng.integers(2))
    step = found.SubPolicy(1.0, op[0].lower() + op[1:] if op[:5] in ("Shear", "Trans") else op.lower(), index, 0.0, "invert", 0, fill)
    got = fixed(lib, "twin_autoaugment", 1, OPS.index(op), index, int(negative and op in SIGNED - {"Rotate"}), 0, fill=fill, image=image)
    expected = with_sign(-1 if negative else 1, lambda: step.operation1(Image.fromarray(image), step.magnitude1))
    tally.see(f"deepvoltaire {op}", got, np.asarray(expected), (index, negative))


def ildoonee_round(lib, rng, tally, found):
    image, fill = photo(rng), (0, 0, 0)
    operation, low, high = found.augment_list()[rng.integers(16)]
    op = operation.__name__.removesuffix("Abs").removesuffix("abs")
    level, negative = float(rng.uniform(0, 30)), bool(rng.integers(2))
    draws = [side + (1.0 - side) * rng.random() for side in image.shape[1::-1]]  # of column and row
    kept, np.random.uniform = np.random.uniform, lambda side, drawn=iter(draws): next(drawn)
    try:
        value = level / 30 * float(high - low) + low
        expected = with_sign(-1 if negative else 1, lambda: operation(Image.fromarray(image), value))
    finally:
        np.random.uniform = kept
    mine = level_argument(lib, "ildoonee", False, op, level, negative and op in GEOMETRY, image)
    corner = [int(max(0, v - mine / 2)) for v in reversed(draws)]
    got = ours(lib, "ildoonee", False, op, mine, "nearest", fill, image, corner)
    tally.see(f"ildoonee {op}", got, np.asarray(expected), (level, negative))


GEOMETRY = ("Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY")
JITTER = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)


def jitter(lib, order, factors, image):
    out = image.copy()
    lib.twin_jitter(
        (ctypes.c_int * 4)(*order), *map(ctypes.c_double, factors), out.ctypes.data_as(ctypes.c_void_p), *image.shape[:2]
    )
    return out


def jitter_round(lib, rng, tally):
    image = photo(rng)
    order = [int(v) for v in rng.permutation(4)]
    factors = [float(v) for v in (*rng.uniform(0, 2, 3), rng.uniform(-0.5, 0.5))]
    expected = Image.fromarray(image)
    for step in order:
        expected = JITTER[step](expected, factors[step])
    tally.see("color jitter", jitter(lib, order, factors, image), np.asarray(expected), (order, factors))


def every_color(lib, tally):
    v = np.arange(256, dtype=np.uint8)
    image = np.stack(np.meshgrid(v, v, v, indexing="ij"), -1).reshape(4096, 4096, 3)
    for share in (0.1, -0.37, 0.5):
        expected = np.asarray(F.adjust_hue(Image.fromarray(image), share))
        tally.see("hue of every color", jitter(lib, range(4), (1, 1, 1, share), image), expected, share)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hsv", action="store_true")
    parser.add_argument("--deepvoltaire", type=module_of, help="a copy of DeepVoltaire's AutoAugment")
    parser.add_argument("--ildoonee", type=module_of, help="a copy of ildoonee's RandAugment")
    options = parser.parse_args()
    lib, rng, tally = library(), np.random.default_rng(options.seed), Tally()
    torch.manual_seed(options.seed)
    for _ in range(options.rounds):
        torchvision_round(lib, rng, tally)
        timm_round(lib, rng, tally)
        jitter_round(lib, rng, tally)
        torchvision_fixed_round(lib, rng, tally)
        if options.deepvoltaire:
            deepvoltaire_round(lib, rng, tally, options.deepvoltaire)
        if options.ildoonee:
            ildoonee_round(lib, rng, tally, options.ildoonee)
    if options.hsv:
        every_color(lib, tally)
    for name in sorted(tally.rounds):
        print(f"{name:28} {tally.rounds[name]:5} images {tally.values[name]:12} values")
    for line in tally.differences[:20]:
        print("DIFFERS", line)
    print(f"{sum(tally.values.values())} values compared, {len(tally.differences)} images differ")
    sys.exit(bool(tally.differences) or not math.isfinite(len(tally.rounds)))


if __name__ == "__main__":
    main()
