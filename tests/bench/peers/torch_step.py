"""One optimisation step of a timm network in PyTorch on the CPU or a GPU: forward, backward, clipping at 1, AdamW.

    pip install torch timm numpy
    python tests/bench/peers/torch_step.py --shape tiny --threads 2 --seconds 5 --format json

The same shapes as `normlab bench step`. AdamW is the fused one, attention is scaled_dot_product_attention, bf16 is
autocast; tf32 lets fp32 products round their factors. torch_steps.py runs many of these in one process.
PyTorch's MKL uses its AVX-512 kernels only on Intel CPUs. On AMD:
    echo 'int mkl_serv_intel_cpu_true(void) { return 1; }' > intel.c && cc -shared -fPIC intel.c -o libintel.so
    LD_PRELOAD=./libintel.so python tests/bench/peers/torch_step.py ...
--compile needs g++, and compiles for up to minutes before timing.
"""
import contextlib

import timm
import torch
import torch.nn.functional as F
from timm.layers import set_fused_attn
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from measure import TIMM, device_options, measure, parser, sizes


def network(args):
    """The network of `bench step` with the sizes in `args`, on its device."""
    set_fused_attn(True)
    if args.shape in TIMM:
        return timm.create_model(TIMM[args.shape], num_classes=args.classes, drop_path_rate=0.0).to(args.device)
    model = VisionTransformer(img_size=args.image, patch_size=args.patch, num_classes=args.classes,
                              embed_dim=args.width, depth=args.depth, num_heads=args.heads, global_pool="avg",
                              class_token=False, fc_norm=False)
    return model.to(args.device)


def compiled(args, model):
    return torch.compile(model, mode=args.mode if args.device == "cuda" else None)


def set_precision(args):
    """A context for the forward pass; only for tf32 do fp32 products round their factors."""
    if args.precision == "tf32" and args.device == "cpu":
        raise RuntimeError("tf32: products of a GPU alone")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.precision == "tf32"
    return lambda: torch.autocast(args.device, torch.bfloat16) if args.precision == "bf16" else contextlib.nullcontext()


def run(args, make=network, **more):
    """Times steps of that network, or of the one from `make`, and prints the result with `more`."""
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    gpu = args.device == "cuda"
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    model = make(args)
    forward = compiled(args, model) if args.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, fused=True)
    images = torch.randn(args.batch, 3, args.image, args.image, device=args.device)
    labels = torch.randint(args.classes, (args.batch,), device=args.device)
    pinned = images.cpu().pin_memory() if args.upload and gpu else None
    cast = set_precision(args)

    def step():
        if pinned is not None:
            images.copy_(pinned, non_blocking=True)
        with cast():
            loss = F.cross_entropy(forward(images), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()

    def steps():  # as in `bench step`: synchronises with a GPU after ten
        for _ in range(10):
            step()
        torch.cuda.synchronize()

    memory = {"gpu_peak_mb": lambda: round(torch.cuda.max_memory_reserved() / 2**20, 1)} if gpu else {}
    measure(args, steps if gpu else step, together=10 if gpu else 1, device=args.device, precision=args.precision,
            compiled=args.compile, torch=torch.__version__, **memory, **more)


def main():
    options = parser(__doc__)
    options.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32", help="bf16: autocast")
    options.add_argument("--compile", action="store_true", help="torch.compile, on a GPU with --mode")
    device_options(options)
    run(sizes(options.parse_args()))


if __name__ == "__main__":
    main()
