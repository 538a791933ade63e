"""Steps of each row of a sweep over placements in PyTorch on the CPU, one line of JSON each, for sweep_time.sh.

    python tests/bench/peers/torch_rows.py --rows pre_pre post_prepost dpn --depth 3 --width 48 --batch 50 --seconds 8

A row is timm's VisionTransformer with the LayerNorms of the named placement. --compile compiles each row before timing
it.
"""
import torch_step
from measure import parser, sizes
from timm.models.vision_transformer import Block
from torch import nn
from torch.nn import functional as F

POSITIONS = ("pre", "post", "prepost")
EXTRAS = ("normformer", "sub_ln", "dpn")  # in addition to pre_pre
ROWS = [*(f"{attn}_{mlp}" for attn in POSITIONS for mlp in POSITIONS), *EXTRAS]


class RowBlock(Block):
    """norm1 and norm2 precede the branches, post1 and post2 follow the sums."""

    def forward(self, x, attn_mask=None, is_causal=False):
        x = self.post1(x + self.ls1(self.attn(self.norm1(x))))
        return self.post2(x + self.ls2(self.mlp(self.norm2(x))))


class DualPatchNorm(nn.Module):
    """Flattened patches through LayerNorm, projection, LayerNorm."""

    def __init__(self, patch, width):
        super().__init__()
        self.patch = patch
        self.layers = nn.Sequential(nn.LayerNorm(3 * patch**2), nn.Linear(3 * patch**2, width), nn.LayerNorm(width))

    def forward(self, images):
        return self.layers(F.unfold(images, self.patch, stride=self.patch).transpose(1, 2))


def network(args, row):
    """The network of torch_step.py with the norms of `row`."""
    model = torch_step.network(args)
    attn, mlp = ("pre", "pre") if row in EXTRAS else row.split("_")
    for block in model.blocks:
        block.__class__ = RowBlock
        for number, where in ((1, attn), (2, mlp)):
            if where == "post":
                setattr(block, f"norm{number}", nn.Identity())
            setattr(block, f"post{number}", nn.Identity() if where == "pre" else nn.LayerNorm(args.width))
        if row == "normformer":
            block.ls1 = nn.LayerNorm(args.width)
        if row == "sub_ln":
            block.attn.norm = nn.LayerNorm(args.width)
        if row in ("normformer", "sub_ln"):
            block.mlp.norm = nn.LayerNorm(4 * args.width)
    if row == "dpn":
        model.patch_embed = DualPatchNorm(args.patch, args.width)
    return model.to(args.device)


def main():
    options = parser(__doc__)
    options.set_defaults(format="json", device="cpu", precision="fp32", upload=False)
    options.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS)
    options.add_argument("--compile", action="store_true", help="torch.compile")
    args = sizes(options.parse_args())
    for row in args.rows:
        torch_step.run(args, lambda args, row=row: network(args, row), row=row)


if __name__ == "__main__":
    main()
