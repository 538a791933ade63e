"""Checks that PyTorch gives the loss and the gradients of normlab's image-text training.

Builds the text tower from torch.nn.TransformerEncoderLayer, loads normlab's parameters, and computes either loss of the
same pairs by autograd in double. Exits 1 if the loss or a gradient differs by more than --tolerance of the largest
value.

    pip install torch safetensors numpy
    NORMLAB_TWIN_OUT=twin build/tests/run -tc="twin: export image-text training"
    python tests/reference/lit_twin.py twin/softmax.safetensors twin/sigmoid.safetensors

A file contains param/NAME and grad/NAME of the text tower, features [pairs, width] of the frozen image tower, texts
[pairs, length] and loss, and as metadata normlab.text (JSON).
"""
import argparse
import json
import sys

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import nn


class TextTower(nn.Module):
    def __init__(self, words, length, width, depth, heads, hidden, out):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.positions = nn.Parameter(torch.zeros(1, length, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, hidden, dropout=0.0, activation="gelu", layer_norm_eps=1e-6,
                                       batch_first=True, norm_first=True) for _ in range(depth))
        self.final = nn.LayerNorm(width, eps=1e-6)
        self.out = nn.Linear(width, out)

    def forward(self, texts):
        x = self.embedding(texts) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.out(self.final(x)[:, -1])


# Normlab's name in a block -> PyTorch's.
IN_BLOCK = {"attn.pre.gamma": "norm1.weight", "attn.pre.beta": "norm1.bias", "mlp.pre.gamma": "norm2.weight",
            "mlp.pre.beta": "norm2.bias", "attn.proj.weight": "self_attn.out_proj.weight",
            "attn.proj.bias": "self_attn.out_proj.bias", "mlp.fc1.weight": "linear1.weight",
            "mlp.fc1.bias": "linear1.bias", "mlp.fc2.weight": "linear2.weight", "mlp.fc2.bias": "linear2.bias"}
OUTSIDE = {"embedding": "embedding.weight", "pos_embed": "positions", "final.gamma": "final.weight",
           "final.beta": "final.bias", "rep.weight": "out.weight", "rep.bias": "out.bias"}


def torch_names(ours):
    """Normlab's tensors of the tower under PyTorch's names."""
    state = {}
    for name, value in ours.items():
        if name in ("temperature", "bias") or ".attn.k." in name or ".attn.v." in name:
            continue
        if ".attn.q." in name:
            joined = torch.cat([ours[name.replace(".attn.q.", f".attn.{part}.")] for part in "qkv"])
            kind = name.rpartition(".")[2]
            state[f"{name.split('.attn')[0]}.self_attn.in_proj_{kind}"] = joined
        elif name.startswith("blocks."):
            block = ".".join(name.split(".")[:2])
            state[f"{block}.{IN_BLOCK[name[len(block) + 1:]]}"] = value
        else:
            state[OUTSIDE[name]] = value
    return state


def contrast(kind, images, texts, t, b):
    images, texts = (v / (v.norm(dim=-1, keepdim=True) + 1e-8) for v in (images, texts))
    logits = t.exp() * images @ texts.T
    if kind == "softmax":
        own = torch.arange(len(images))
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2
    signs = 2 * torch.eye(len(images), dtype=logits.dtype) - 1
    return -F.logsigmoid(signs * (logits + b)).sum(dim=1).mean()


def compare(path):
    file = safe_open(path, "pt")
    config = json.loads(file.metadata()["normlab.text"])
    read = lambda prefix: {n[len(prefix):]: file.get_tensor(n) for n in file.keys() if n.startswith(prefix)}
    params, gradients = read("param/text."), read("grad/text.")
    words, width = params["embedding"].shape
    tower = TextTower(words, params["pos_embed"].shape[1], width, config["depth"], config["num_heads"],
                      params["blocks.0.mlp.fc1.bias"].shape[0], params["rep.bias"].shape[0]).double()
    tower.load_state_dict(torch_names(params))
    t, b = (params[name].clone().requires_grad_() for name in ("temperature", "bias"))
    loss = contrast(config["loss"], file.get_tensor("features"), tower(file.get_tensor("texts").long()), t, b)
    loss.backward()
    wanted = torch_names(gradients)
    pairs = [("loss", file.get_tensor("loss")[0], loss.detach())]
    pairs += [(name, wanted[name], p.grad) for name, p in tower.named_parameters()]
    pairs += [("temperature", gradients["temperature"], t.grad)]
    pairs += [("bias", gradients["bias"], b.grad)] if config["loss"] == "sigmoid" else []
    worst = 0.0
    for name, ours, theirs in pairs:
        share = ((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-12)).item()
        if share != share or share > worst:
            worst = share if share == share else float("inf")
            print(f"{path}: {name} differs by {share:.2e} of its largest value")
    print(f"{path}: {len(pairs)} tensors, loss {loss.item():.6f}, largest difference {worst:.2e}")
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.safetensors")
    parser.add_argument("--tolerance", type=float, default=1e-9)
    args = parser.parse_args()
    sys.exit(0 if max(compare(path) for path in args.files) <= args.tolerance else 1)


if __name__ == "__main__":
    main()
