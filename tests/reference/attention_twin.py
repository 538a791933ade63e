"""Writes fixtures of Vision Transformers and a Swin of timm whose attention has gates, a learned temperature, and heads
without their part along the token's own value, and whole trainings by AdamW. Needs torch, timm, safetensors.

    python tests/reference/attention_twin.py tests/reference/newer
"""

import math
import pathlib
import sys

import activation_twin as vit
import swin_twin as swin
import timm
import torch
from torch.nn import functional
from torch.nn.functional import normalize


class L2(torch.nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.gamma, self.eps = torch.nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return self.gamma * x / (x.square().sum(-1, keepdim=True) + self.eps).sqrt()


class LayerNorm(torch.nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.gamma, self.beta = torch.nn.Parameter(torch.ones(width)), torch.nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
        return functional.layer_norm(x, self.gamma.shape, self.gamma, self.beta, self.eps)


class Attention(torch.nn.Module):
    """Of a block or a window of timm, whose parts it takes."""

    def __init__(self, of, gate="none", learned=False, exclusive=False, inner=False, eps=1e-6):
        super().__init__()
        self.qkv, self.proj, self.heads, self.exclusive = of.qkv, of.proj, of.num_heads, exclusive
        width = of.proj.in_features
        if hasattr(of, "relative_position_bias_table"):
            self.relative_position_bias_table = of.relative_position_bias_table
            self.relative_position_index = of.relative_position_index
        self.gate = {"none": None, "head": torch.nn.Linear(width, self.heads),
                     "channel": torch.nn.Linear(width, width)}[gate]  # fmt: skip
        if learned:
            self.logit_scale = torch.nn.Parameter(torch.full((self.heads,), math.log(10)))
            self.query, self.key = L2(width // self.heads, eps), L2(width // self.heads, eps)
        if inner:
            self.inner = LayerNorm(width, eps)

    def forward(self, x, mask=None, **unused):
        b, n, width = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scale = (width // self.heads) ** -0.5
        if hasattr(self, "logit_scale"):  # Swin v2
            q, k = self.query(q), self.key(k)
            scale = self.logit_scale.clamp(max=math.log(1 / 0.01)).exp().reshape(-1, 1, 1)
        scores = q @ k.transpose(-2, -1) * scale
        if hasattr(self, "relative_position_index"):
            table = self.relative_position_bias_table[self.relative_position_index.flatten()]
            scores = scores + table.reshape(n, n, -1).permute(2, 0, 1)
        if mask is not None:
            windows = mask.shape[0]
            scores = scores.reshape(b // windows, windows, self.heads, n, n) + mask[:, None].to(scores.dtype)
            scores = scores.reshape(b, self.heads, n, n)
        y = scores.softmax(-1) @ v
        if self.exclusive:
            own = normalize(v, dim=-1)
            y = y - (y * own).sum(-1, keepdim=True) * own
        y = y.transpose(1, 2)
        if self.gate is not None:
            y = y * self.gate(x).reshape(b, n, self.heads, -1).sigmoid()
        y = y.reshape(b, n, width)
        return self.proj(self.inner(y) if hasattr(self, "inner") else y)


def parts(**keys):
    def change(block):
        block.attn = Attention(block.attn, **keys)

    return change


def timms_gate(block):
    width = block.attn.proj.in_features
    block.attn = timm.layers.Attention(width, block.attn.num_heads, qkv_bias=True, gated=True)


def sites(**norms):
    norms = {"pre": "layer_norm"} | {s: "none" for s in ("query", "key", "value", "inner", "out", "post")} | norms
    return {"attn": norms}


UNIT = {"query": "l2", "key": "l2"}
ALL = {"attn_gate": "channel", "attn_scale": "learned", "exclude_self": True}
CASES = {
    "gate_timm": ({"attn_gate": "channel"}, timms_gate),
    "gate_head": ({"attn_gate": "head"}, parts(gate="head")),
    "attn_scale": ({"attn_scale": "learned"} | sites(**UNIT), parts(learned=True)),
    "exclude_self": ({"exclude_self": True}, parts(exclusive=True)),
    "attention_all": (ALL | sites(inner="layer_norm", **UNIT),
                      parts(gate="channel", learned=True, exclusive=True, inner=True)),
}  # fmt: skip
TRAINED = {
    "attention_head": (ALL | {"attn_gate": "head"} | sites(**UNIT), parts(gate="head", learned=True, exclusive=True)),
}
SWIN = {
    "timm_attention": dict(
        grid=(4, 7), window=4, patch=2, width=8, heads=(2,), depths=(2,), ratio=1, batch=2,
        change=parts(gate="head", learned=True, exclusive=True, eps=1e-5),
        keys=ALL | {"attn_gate": "head"} | sites(**UNIT)),
}  # fmt: skip


def main():
    models, trainings = vit.folders()
    for name, (keys, change) in CASES.items():
        vit.write(models, name, "gelu", False, keys, change)
    for name, (keys, change) in TRAINED.items():
        vit.write_training(trainings, name, "gelu", False, keys, change)
    for name, case in SWIN.items():
        swin.write(pathlib.Path(sys.argv[1]) / "swin", name, case, "after_shift", 1)
    print(f"timm {timm.__version__}, torch {torch.__version__}: {len(CASES) + len(TRAINED) + len(SWIN)} files")


if __name__ == "__main__":
    main()
