"""Checks that a repository's own network, trained on normlab's batches, reaches the same losses and accuracy.

The source is s-chh/PyTorch-Scratch-Vision-Transformer-ViT, whose model.py is imported unchanged. It starts from
normlab's initial values, sees the images and labels of a trial of experiments/printed/s_chh_cifar10.json (or of a
descriptor that extends it), and gets that trial's learning rates. In fp32 and without --dropout nothing is random.
With --dropout the masks differ, so losses agree only on average. With --dropout and --masks the source's network drops
what normlab's drops: NORMLAB_BATCHES_MASKS=100 in the environment of the export writes the masks of 100 steps.

    pip install torch torchvision safetensors numpy pillow
    git clone https://github.com/s-chh/PyTorch-Scratch-Vision-Transformer-ViT source
    NORMLAB_BATCHES_OUT=batches NORMLAB_BATCHES_OF=SHORT.json NORMLAB_DATA=DATA \\
        build/tests/run -tc="twin: export all batches of a trial"
    python tests/reference/source_batches.py batches --model source/model.py --config TRIAL/config.json \\
        --metrics TRIAL/attempt-1/metrics.jsonl --data DATA
"""

import argparse
import json
import math
import pathlib
import runpy

import numpy as np
import torch
import torch.nn.functional as F
from printed_rerun import shards
from safetensors import safe_open
from torchvision import transforms

EVERY = 50


def source_state(ours, patch, channels):
    """Normlab's tensors under the names of the source's model.py."""
    direct = {"pos_embed": "embedding.pos_embedding", "cls_token": "embedding.cls_token"}
    parts = {"patch_embed": "embedding.conv1", "final": "norm", "rep": "classifier.fc1", "head": "classifier.fc2"}
    in_block = {"attn.q": "attention.queries", "attn.k": "attention.keys", "attn.v": "attention.values",
                "attn.proj": "attention.out_projection", "attn.pre": "norm1", "mlp.pre": "norm2", "mlp.fc1": "fc1",
                "mlp.fc2": "fc2"}
    state = {}
    for name, value in ours.items():
        path, _, last = name.rpartition(".")
        if name == "patch_embed.weight":
            value = value.reshape(-1, patch, patch, channels).permute(0, 3, 1, 2)
        last = {"gamma": "weight", "beta": "bias"}.get(last, last)
        if name in direct:
            state[direct[name]] = value
        elif path.startswith("blocks."):
            _, block, site = path.split(".", 2)
            state[f"encoder.{block}.{in_block[site]}.{last}"] = value
        else:
            state[f"{parts[path]}.{last}"] = value
    return state


def rate(step, total, train):
    schedule, peak = train["schedule"], train["optimizer"]["lr"]
    warmup = schedule["warmup_steps"]
    if step < warmup:
        return schedule["warmup_from"] + (peak - schedule["warmup_from"]) * step / warmup
    done = (step - warmup) / (total - warmup)
    return schedule["final_lr"] + (peak - schedule["final_lr"]) * 0.5 * (1 + math.cos(math.pi * done))


class Given(torch.nn.Module):
    """Dropout with masks from a file: [steps, images, tokens, width]."""

    def __init__(self, masks, rate):
        super().__init__()
        self.masks, self.rate, self.step = masks, rate, 0

    def forward(self, x):
        if not self.training:
            return x
        self.step += 1
        return x * torch.from_numpy(self.masks[self.step - 1].copy()).float() / (1 - self.rate)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="NORMLAB_BATCHES_OUT")
    parser.add_argument("--model", type=pathlib.Path, required=True, help="the source's model.py")
    parser.add_argument("--config", type=pathlib.Path, required=True, help="config of our run")
    parser.add_argument("--metrics", type=pathlib.Path, required=True, help="metrics.jsonl of our run")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="normlab's folder of the data sets")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--masks", action="store_true", help="drop what the exported masks drop")
    parser.add_argument("--seed", type=int, default=0, help="of the masks of dropout")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    config = json.loads(args.config.read_text())
    config = config.get("config", config)
    sizes, train = config["model"], config["train"]
    height, channels, batch = sizes["image_size"][0], sizes["channels"], train["batch_size"]
    images = np.memmap(args.folder / "images.f32", np.float32, "r").reshape(-1, batch, height, height, channels)
    labels = np.fromfile(args.folder / "labels.i32", np.int32).reshape(-1, batch)
    lines = [json.loads(line) for line in args.metrics.read_text().splitlines()]
    ours = {line["step"]: line["train/loss"] for line in lines if "train/loss" in line}
    measured = [line["eval/accuracy"] for line in lines if "eval/accuracy" in line]

    torch.manual_seed(args.seed)
    model = runpy.run_path(str(args.model))["VisionTransformer"](
        channels, sizes["embed_dim"], sizes["depth"], sizes["num_heads"], sizes["mlp_dim"] // sizes["embed_dim"], height,
        sizes["patch_size"], sizes["num_classes"], args.dropout)
    with safe_open(args.folder / "initial.safetensors", "pt") as file:
        values = {name.split("/", 1)[1]: file.get_tensor(name) for name in file.keys()}
    model.load_state_dict(source_state(values, sizes["patch_size"], channels))
    steps = len(images)
    if args.masks:
        places = 1 + 2 * sizes["depth"]
        tokens = 1 + (height // sizes["patch_size"]) ** 2
        masks = np.memmap(args.folder / "masks.u8", np.uint8, "r").reshape(-1, places, batch, tokens, sizes["embed_dim"])
        steps = len(masks)
        model.embedding.dropout = Given(masks[:, 0], args.dropout)
        for i, block in enumerate(model.encoder):
            block.dropout1 = Given(masks[:, 1 + 2 * i], args.dropout)
            block.dropout2 = Given(masks[:, 2 + 2 * i], args.dropout)
    optimizer = torch.optim.AdamW(model.parameters(), train["optimizer"]["lr"],
                                  weight_decay=train["optimizer"]["weight_decay"])
    losses = []
    model.train()
    print(f"{'step':>6} {'source':>9} {'normlab':>9} {'difference':>11}")
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate(step, len(images), train)
        x = torch.from_numpy(images[step].copy()).permute(0, 3, 1, 2)
        loss = F.cross_entropy(model(x), torch.from_numpy(labels[step]).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % EVERY == 0:
            mean, other = np.mean(losses[-EVERY:]), ours.get(step + 1, float("nan"))
            print(f"{step + 1:6} {mean:9.5f} {other:9.5f} {mean - other:11.2e}", flush=True)

    if steps < len(images):
        return  # there is no accuracy of normlab after these steps
    model.eval()
    tests, answers = shards(args.data / "cifar10", "test")
    to_tensor = transforms.Compose([transforms.ToTensor(),
                                    transforms.Normalize(config["dataset"]["mean"], config["dataset"]["std"])])
    right = 0
    with torch.no_grad():
        for first in range(0, len(tests), 256):
            x = torch.stack([to_tensor(image) for image in tests[first:first + 256]])
            right += (model(x).argmax(1) == torch.tensor(answers[first:first + 256])).sum().item()
    print(f"test accuracy: source {100 * right / len(tests):.2f}%, normlab {100 * measured[-1]:.2f}%")


if __name__ == "__main__":
    main()
