"""Checks that a training that starts from a timm file has timm's own losses.

Writes a timm network with random weights and a descriptor that fine-tunes it on photographs, runs normlab, and trains
the network in PyTorch on the same images, decoded and resized by Pillow. A batch is the whole training split, so its
order does not matter, and every step is an epoch, so metrics.jsonl has each step's loss. The same again with frozen
parts. Exits 1 if a loss differs by more than --tolerance.

    pip install torch timm torchvision safetensors pillow==11.3.0    # newer Pillows round some resized pixels otherwise
    python tests/reference/timm_finetune.py build/normlab DATA/imagenet-100    # CLASS/*.JPEG
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import timm
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import save_file
from torchvision import transforms

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SIZE, RATE, DECAY = 224, 1e-4, 0.05


def random_network(classes):
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", num_classes=classes)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_((1.0 if "norm" in name and name.endswith("weight") else 0.0) + 0.05 * torch.randn_like(value))
    return model


def link_photographs(photographs, folder):
    """folder/train has every class, and folder/val some of the same images."""
    classes = sorted(path for path in photographs.iterdir() if path.is_dir())
    for split, chosen in (("train", classes), ("val", classes[:5])):
        for path in chosen:
            (folder / split / path.name).mkdir(parents=True)
            for image in path.iterdir():
                (folder / split / path.name / image.name).symlink_to(image.resolve())
    return classes


def descriptor(classes, steps, freeze):
    crop = {"crop": "stretch", "resize": "bilinear"}
    return {
        "about": "timm's ViT-Ti/16 with random weights, fine-tuned on photographs",
        "start": {"file": "timm.safetensors", "names": "timm"},
        "dataset": {"name": "photos", "layout": "image_folder", "eval": "val", "mean": MEAN, "std": STD},
        "model": {"variant": "Ti/16", "image_size": SIZE, "num_classes": classes, "pool": "token", "pos_embed_class": True},
        "train": {
            "steps": steps, "batch_size": classes, "eval_every_epochs": 1, "freeze": freeze,
            "optimizer": {"name": "adamw", "lr": RATE, "weight_decay": DECAY, "decay_matrices_only": False},
            "schedule": {"name": "constant"}, "augment": crop, "eval_transform": crop,
        },
    }


def our_losses(args, folder, classes, freeze, name):
    (folder / f"{name}.json").write_text(json.dumps(descriptor(classes, args.steps, freeze)))
    out = folder / f"results-{name}"
    subprocess.run([args.normlab, "run", folder / f"{name}.json", "--data", folder, "--out", out, "--workers", "1"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (metrics,) = out.glob("trials/*/attempt-1/metrics.jsonl")
    (log,) = out.glob("trials/*/attempt-1/log")
    print(next(line for line in log.read_text().splitlines() if "matched" in line).split(": ")[-1])
    means = [json.loads(line)["train/loss"] for line in metrics.read_text().splitlines()]  # over all steps so far
    assert len(means) == args.steps <= 50
    sums = [step * mean for step, mean in enumerate(means, 1)]
    return [after - before for before, after in zip([0, *sums], sums)]


def timm_losses(model, images, steps, frozen):
    for name, value in model.named_parameters():
        value.requires_grad_(not frozen(name))
    trained = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, weight_decay=DECAY)
    losses, labels = [], torch.arange(len(images))
    for _ in range(steps):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


FROZEN = {
    "trained": ([], lambda name: False),
    "frozen": (["stem", "blocks.0-3"], lambda name: name.startswith(("cls_token", "pos_embed", "patch_embed", "blocks.0.",
                                                                     "blocks.1.", "blocks.2.", "blocks.3."))),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("normlab", type=Path)
    parser.add_argument("photographs", type=Path)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    args = parser.parse_args()
    args.normlab = args.normlab.resolve()
    worst = 0
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        classes = link_photographs(args.photographs, folder / "photos")
        save_file(random_network(len(classes)).state_dict(), folder / "timm.safetensors")
        resize = transforms.Compose([transforms.Resize((SIZE, SIZE)), transforms.ToTensor(),
                                     transforms.Normalize(MEAN, STD)])
        images = torch.stack([resize(Image.open(next(path.iterdir())).convert("RGB")) for path in classes])
        for name, (freeze, frozen) in FROZEN.items():
            ours = our_losses(args, folder, len(classes), freeze, name)
            theirs = timm_losses(random_network(len(classes)), images, args.steps, frozen)
            differences = [abs(a - b) for a, b in zip(ours, theirs, strict=True)]
            print(*(f"{difference:.1e}" for difference in differences))
            worst = max(worst, *differences)
            print(f"{name}: losses from {theirs[0]:.5f} to {theirs[-1]:.5f}, largest difference {max(differences):.2e}")
    return worst > args.tolerance


if __name__ == "__main__":
    sys.exit(main())
