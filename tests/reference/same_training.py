"""Checks that PyTorch, given normlab's initial weights and batches, trains as normlab does.

Builds timm's VisionTransformer with the norms of one placement, loads the initial parameters of a normlab run, trains
on the same batches at the same rates with torch.optim.AdamW, and compares the losses. Exits 1 if a loss differs by more
than --tolerance.

    pip install torch timm safetensors numpy
    NORMLAB_TWIN_OUT=twin NORMLAB_DATA=data build/tests/run -tc="twin: export a training run"
    python tests/reference/same_training.py twin/*.safetensors

A file contains param/NAME and buffer/NAME (before the first step), images [steps, B, H, W, C], labels [steps, B],
rates, losses and grad_norms [steps], and as metadata normlab.model and normlab.optimizer (JSON). If there are fewer
batches than steps, they are reused in order.

Sensitivity: with q and k exchanged, or a norm before instead of after the sum, losses differ by 0.05; without weight
decay by 9e-4, and with the tanh form of GELU by 2e-4, which --tolerance 1e-4 detects.
"""
import argparse
import json
import sys

import torch
import torch.nn.functional as F
from safetensors import safe_open
from timm.models.vision_transformer import Block, VisionTransformer
from torch import nn


class ChannelBatchNorm(nn.BatchNorm1d):
    """Batch norm over images and tokens of [B, N, channels]."""

    def forward(self, x):
        return super().forward(x.flatten(0, 1)).view_as(x)


class PostNormBlock(Block):
    """Post-LN of Xiong et al. 2020: the norm is applied to the sum."""

    def forward(self, x, attn_mask=None, is_causal=False):
        x = self.norm1(x + self.attn(x))
        return self.norm2(x + self.mlp(x))


class DualPatchNorm(nn.Module):
    """Patches flattened in order row, column, channel, LayerNorm, projection, LayerNorm (Kumar et al. 2023)."""

    def __init__(self, patch_size, channels, embed_dim):
        super().__init__()
        self.patch_size, self.channels = patch_size, channels
        self.norm_in = nn.LayerNorm(patch_size**2 * channels, eps=1e-6)
        self.proj = nn.Linear(patch_size**2 * channels, embed_dim)
        self.norm = nn.LayerNorm(embed_dim, eps=1e-6)

    def forward(self, images):
        x = F.unfold(images, self.patch_size, stride=self.patch_size)  # [B, channel row column, N]
        x = x.unflatten(1, (self.channels, self.patch_size**2)).permute(0, 3, 2, 1).flatten(2)
        return self.norm(self.proj(self.norm_in(x)))


def build(config):
    placement = config["placement"]
    if placement not in ("pre_pre", "post_post", "dpn", "bn_ffnbn"):
        sys.exit(f"placement {placement}: known here are pre_pre, post_post, dpn and bn_ffnbn")
    width, hidden = config["embed_dim"], config["mlp_dim"]
    model = VisionTransformer(
        img_size=tuple(config["image_size"]), patch_size=config["patch_size"], in_chans=config["channels"],
        num_classes=config["num_classes"], embed_dim=width, depth=config["depth"], num_heads=config["num_heads"],
        mlp_ratio=hidden / width, global_pool="avg", class_token=False, fc_norm=False,
        norm_layer=ChannelBatchNorm if placement == "bn_ffnbn" else lambda n, **kw: nn.LayerNorm(n, eps=1e-6, **kw),
        block_fn=PostNormBlock if placement == "post_post" else Block)
    if placement == "dpn":
        model.patch_embed = DualPatchNorm(config["patch_size"], config["channels"], width)
    if placement == "bn_ffnbn":
        for block in model.blocks:
            block.mlp.act = nn.Sequential(ChannelBatchNorm(hidden), block.mlp.act)
    return model


# Normlab's site, without "blocks.I.", -> timm's.
SITES = {
    "stem.patch_in": "patch_embed.norm_in", "stem.patch_out": "patch_embed.norm", "final": "norm",
    "attn.pre": "norm1", "attn.post": "norm1", "mlp.pre": "norm2", "mlp.post": "norm2", "mlp.hidden": "mlp.act.0",
}
KINDS = {"gamma": "weight", "beta": "bias"}


def timm_state(ours, config):
    """Normlab's tensors under timm's names."""
    state = {}
    for name, value in ours.items():
        if ".attn.k." in name or ".attn.v." in name:
            continue  # stacked with q
        if ".attn.q." in name:
            parts = [ours[name.replace(".attn.q.", f".attn.{part}.")] for part in "qkv"]
            state[name.replace(".attn.q.", ".attn.qkv.")] = torch.cat(parts)
            continue
        if name == "patch_embed.weight" and config["placement"] != "dpn":
            p, channels = config["patch_size"], config["channels"]
            value = value.reshape(-1, p, p, channels).permute(0, 3, 1, 2)
        name = name.replace("patch_embed.", "patch_embed.proj.")
        path, _, last = name.rpartition(".")
        block = ".".join(path.split(".")[:2]) + "." if path.startswith("blocks.") else ""
        site = path[len(block):]
        state[f"{block}{SITES[site]}.{KINDS.get(last, last)}" if site in SITES else name] = value
    return state


def compare(path, every):
    file = safe_open(path, "pt")
    config, optim = (json.loads(file.metadata()[key]) for key in ("normlab.model", "normlab.optimizer"))
    ours = {name.split("/", 1)[1]: file.get_tensor(name) for name in file.keys() if name.startswith(("param/", "buffer/"))}
    images, labels = file.get_tensor("images"), file.get_tensor("labels").long()
    rates, losses = file.get_tensor("rates").tolist(), file.get_tensor("losses").tolist()
    norms = file.get_tensor("grad_norms").tolist() if "grad_norms" in file.keys() else [float("nan")] * len(rates)

    model = build(config)
    missing, unexpected = model.load_state_dict(timm_state(ours, config), strict=False)
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    if missing or unexpected:
        sys.exit(f"{path}: timm's model lacks {unexpected} and waits for {missing}")
    decayed = [p for name, p in model.named_parameters() if p.ndim > 1 and name != "pos_embed"]
    others = [p for name, p in model.named_parameters() if p.ndim <= 1 or name == "pos_embed"]
    if len(decayed) != sum(name.endswith(".weight") for name in ours) - 2 * config["depth"]:  # q, k, v are one here
        sys.exit(f"{path}: another set of matrices decays")
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": optim["weight_decay"]}, {"params": others, "weight_decay": 0.0}],
        betas=(optim["beta1"], optim["beta2"]), eps=optim["eps"])

    print(f"{path}: {config['placement']}, {len(rates)} steps of {labels.shape[1]} images")
    print(f"{'step':>6} {'normlab':>10} {'torch':>10} {'difference':>11} {'norm, ours':>11} {'torch':>9}")
    worst = 0.0
    for step, rate in enumerate(rates):
        batch = step % len(images)
        loss = F.cross_entropy(model(images[batch].permute(0, 3, 1, 2)), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), optim["clip_norm"])
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        difference = abs(loss.item() - losses[step])
        worst = max(worst, difference if difference == difference else float("inf"))
        if (step + 1) % every == 0 or step == 0:
            print(f"{step + 1:6} {losses[step]:10.6f} {loss.item():10.6f} {difference:11.2e} {norms[step]:11.5f} {norm:9.5f}")
    print(f"largest difference of a loss: {worst:.2e}\n")
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.safetensors")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--every", type=int, default=10, help="steps between two lines")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    worst = [compare(path, args.every) for path in args.files]
    sys.exit(0 if max(worst) <= args.tolerance else 1)


if __name__ == "__main__":
    main()
