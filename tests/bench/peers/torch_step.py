"""One optimisation step of timm's VisionTransformer in PyTorch on the CPU or a GPU: forward, backward, clipping at 1, AdamW.

    pip install torch timm numpy
    python tests/bench/peers/torch_step.py --shape tiny --threads 2 --seconds 5 --format json

The same shapes as `normlab bench step`. PyTorch's MKL takes its AVX-512 kernels only on Intel CPUs. On AMD:
    echo 'int mkl_serv_intel_cpu_true(void) { return 1; }' > intel.c && cc -shared -fPIC intel.c -o libintel.so
    LD_PRELOAD=./libintel.so python tests/bench/peers/torch_step.py ...
--compile needs g++ and compiles for up to minutes before anything is timed.
"""
import contextlib

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from measure import measure, parser, sizes


def main():
    options = parser(__doc__)
    options.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="bf16: autocast")
    options.add_argument("--compile", action="store_true", help="torch.compile; on a GPU with max-autotune")
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    args = sizes(options.parse_args())

    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    model = VisionTransformer(img_size=args.image, patch_size=args.patch, num_classes=args.classes,
                              embed_dim=args.width, depth=args.depth, num_heads=args.heads, global_pool="avg",
                              class_token=False, fc_norm=False)
    model.to(args.device)
    gpu = args.device == "cuda"
    forward = torch.compile(model, mode="max-autotune" if gpu else None) if args.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, fused=True)
    images = torch.randn(args.batch, 3, args.image, args.image, device=args.device)
    labels = torch.randint(args.classes, (args.batch,), device=args.device)
    bf16 = args.precision == "bf16"

    def step():
        with torch.autocast(args.device, torch.bfloat16) if bf16 else contextlib.nullcontext():
            loss = F.cross_entropy(forward(images), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()

    def steps():  # as `bench step` does: a GPU is waited for after ten
        for _ in range(10):
            step()
        torch.cuda.synchronize()

    measure(args, steps if gpu else step, together=10 if gpu else 1, device=args.device, precision=args.precision, compiled=args.compile, torch=torch.__version__)


if __name__ == "__main__":
    main()
