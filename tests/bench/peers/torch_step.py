"""One optimisation step of timm's VisionTransformer in PyTorch on the CPU: forward, backward, clipping at 1, AdamW.

    pip install torch timm numpy
    python tests/bench/peers/torch_step.py --shape tiny --threads 2 --seconds 5 --format json

The same shapes as `normlab bench step`. PyTorch's MKL takes its AVX-512 kernels only on Intel CPUs. On AMD:
    echo 'int mkl_serv_intel_cpu_true(void) { return 1; }' > intel.c && cc -shared -fPIC intel.c -o libintel.so
    LD_PRELOAD=./libintel.so python tests/bench/peers/torch_step.py ...
"""
import argparse
import contextlib
import json
import resource
import statistics
import time

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import nn

SHAPES = {  # pixels, patch, width, depth, heads, classes, batch
    "micro": (32, 4, 64, 4, 2, 10, 64),
    "tiny": (32, 4, 192, 12, 3, 10, 128),
    "small": (224, 16, 384, 12, 6, 1000, 32),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5, help="of timed steps, after three that are not")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="bf16: autocast")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    pixels, patch, width, depth, heads, classes, batch = SHAPES[args.shape]
    model = VisionTransformer(img_size=pixels, patch_size=patch, num_classes=classes, embed_dim=width, depth=depth,
                              num_heads=heads, global_pool="avg", class_token=False, fc_norm=False)
    forward = torch.compile(model) if args.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, fused=True)
    images, labels = torch.randn(batch, 3, pixels, pixels), torch.randint(classes, (batch,))
    bf16 = args.precision == "bf16"

    def step():
        with torch.autocast("cpu", torch.bfloat16) if bf16 else contextlib.nullcontext():
            loss = F.cross_entropy(forward(images), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()

    for _ in range(3):
        step()
    times, end = [], time.perf_counter() + args.seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    result = {
        "shape": args.shape,
        "precision": args.precision,
        "threads": args.threads,
        "images_per_second": round(batch / statistics.median(times), 1),
        "steps": len(times),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "torch": torch.__version__,
    }
    if args.format == "json":
        print(json.dumps(result))
    else:
        print("\n".join(f"{key:18} {value}" for key, value in result.items()))


if __name__ == "__main__":
    main()
