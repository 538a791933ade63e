"""Writes policy_golden.txt: the policies of the sources, and hashes of their results, for autoaugment_test.cpp and
randaugment_test.cpp.

    pip install torch torchvision numpy pillow
    python tests/lab/data/ops/policy_golden.py --deepvoltaire autoaug.py [...] --ildoonee randomaug.py \\
        > tests/lab/data/ops/policy_golden.txt

autoaug.py: a copy of DeepVoltaire's AutoAugment beside the file of its operations, as in SHI-Labs/Compact-Transformers
(examples/utils), aanna0701/SPT_LSA_ViT (utils) and omihub777/ViT-CIFAR. Several copies must give the same lines.
randomaug.py: a copy of ildoonee's RandAugment, as in kentaroy47/vision-transformers-cifar10.
"""
import argparse
import importlib
import pathlib
import random
import re
import sys

import numpy as np
from PIL import Image, __version__

HEIGHT, WIDTH = 32, 40
SIGNED = {"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Color", "Contrast", "Brightness", "Sharpness"}
CUTOUT = 25.3, 11.9  # the drawn column and row


def picture():
    """The same formula as in the tests: wrapping slopes, and a step."""
    y, x, c = np.mgrid[0:HEIGHT, 0:WIDTH, 0:3]
    return Image.fromarray(((x * 7 + y * 5 + c * 60 + (x * y) // 9 + (x > y) * 90) % 256).astype(np.uint8))


def fnv(images):
    """FNV-1a, 64 bits, of the images one after the other."""
    value = 0xCBF29CE484222325
    for byte in b"".join(np.asarray(image).tobytes() for image in images):
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def word(name):
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.removesuffix("Abs").removesuffix("abs")).lower()


def module_of(path):
    """A file that may import its neighbours with or without a dot."""
    path = pathlib.Path(path).resolve()
    if not hasattr(np, "int"):
        np.int = int  # older than NumPy 1.24
    dotted = "from ." in path.read_text()
    sys.path.insert(0, str(path.parents[1] if dotted else path.parent))
    found = importlib.import_module(f"{path.parent.name}.{path.stem}" if dotted else path.stem)
    sys.path.pop(0)
    return found


def signs(name):
    return (1, -1) if name in SIGNED else (1,)


def with_sign(sign, run):
    """DeepVoltaire's operations draw the sign itself, ildoonee's compare a number with one half."""
    kept = random.choice, random.random
    random.choice, random.random = lambda _: sign, lambda: 0.1 if sign > 0 else 0.9
    try:
        return run()
    finally:
        random.choice, random.random = kept


def policy_lines(dialect, steps, run):
    """`steps`: per sub-policy two of (name, probability, key, argument); `run` makes an image of a step."""
    for i, pair in enumerate(steps):
        yield f"{dialect}_policy {i} " + " ".join(f"{word(n)} {p!r} {float(a)!r}" for n, p, _, a in pair)
    seen = {}
    for i, pair in enumerate(steps):
        for j, (name, _, key, argument) in enumerate(pair):
            seen.setdefault((name, float(argument)), (i, j, key, argument))
    for (name, _), (i, j, key, argument) in seen.items():
        for sign in signs(name)[: 1 if (dialect, name) == ("deepvoltaire", "Rotate") else 2]:  # which turns one way
            yield f"{dialect}_pixels {i} {j} {sign} {fnv([run(name, key, argument, sign)])}"


def deepvoltaire(path):
    policy = module_of(path).CIFAR10Policy()
    step = lambda p, operation, magnitude: (type(operation).__name__, p, operation, magnitude)
    steps = [(step(s.p1, s.operation1, s.magnitude1), step(s.p2, s.operation2, s.magnitude2)) for s in policy.policies]
    return policy_lines("deepvoltaire", steps,
                        lambda _, operation, magnitude, sign: with_sign(sign, lambda: operation(picture(), magnitude)))


def torchvision_share(policy, name, bins, index, size=(HEIGHT, WIDTH)):
    """The magnitude in transforms.v2, of whose Solarize 1 is a threshold of 255."""
    magnitudes = policy._AUGMENTATION_SPACE[name][0](bins, *size)
    return 0.0 if magnitudes is None or index is None or not magnitudes.ndim else float(magnitudes[index])


def torchvision_apply(policy, image, name, value):
    return policy._apply_image_or_video_transform(image, name, value, policy.interpolation, policy._fill)


def torchvision():
    from torchvision.transforms import v2
    auto, trivial = v2.AutoAugment(v2.AutoAugmentPolicy.CIFAR10), v2.TrivialAugmentWide()
    share = torchvision_share
    scale = lambda name: 255.0 if name == "Solarize" else 1.0
    step = lambda n, p, index: (n, p, share(auto, n, 10, index), scale(n) * share(auto, n, 10, index))
    steps = [tuple(step(*each) for each in pair) for pair in auto._policies]
    apply = lambda policy, name, value: torchvision_apply(policy, picture(), name, value)
    yield from policy_lines("torchvision", steps, lambda name, value, _, sign: apply(auto, name, sign * value))
    for name in trivial._AUGMENTATION_SPACE:
        values = [share(trivial, name, 31, index) for index in range(31)]
        for sign in signs(name):
            yield f"trivialaugment {word(name)} {sign} {fnv(apply(trivial, name, sign * v) for v in values)}"


def ildoonee(path):
    found = module_of(path)
    drawn = lambda side: CUTOUT[0] if side == WIDTH else CUTOUT[1]
    np.random.uniform = drawn
    for operation, low, high in found.augment_list():
        name = operation.__name__.removesuffix("abs")
        geometric = name in ("Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY")
        arguments = [float(m) / 30 * float(high - low) + low for m in range(31)]
        for sign in (1, -1) if geometric else (1,):
            images = [with_sign(sign, lambda: operation(picture(), v)) for v in arguments]
            yield f"ildoonee {word(name)} {sign} {fnv(images)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--deepvoltaire", nargs="+", required=True)
    parser.add_argument("--ildoonee", required=True)
    options = parser.parse_args()
    copies = [list(deepvoltaire(path)) for path in options.deepvoltaire]
    for path, lines in zip(options.deepvoltaire, copies):
        if lines != copies[0]:
            sys.exit(f"{path} differs from {options.deepvoltaire[0]}")
    print(f"# policy_golden.py with Pillow {__version__}")
    print(*copies[0], *torchvision(), *ildoonee(options.ildoonee), sep="\n")


if __name__ == "__main__":
    main()
