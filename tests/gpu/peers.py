"""Times single operations in PyTorch on a GPU, one line of JSON each.

    python3 tests/gpu/peers.py                  attention of ViT-S/16, and a product of side 8192 for half a second
    python3 tests/gpu/peers.py --device cpu     small sizes, to check the script

attention: torch's scaled_dot_product_attention in bf16 by each of its backends, forward, and backward alone. With
"deterministic" under torch.use_deterministic_algorithms(True): equal inputs then give equal bits, as normlab's always
do. `normlab bench ops --op attention --shape s16 --precision bf16 --device cuda` measures ours, and its product_gflops
is our product. Milliseconds are medians of events around calls in a row; what a backend refuses has "skipped".
"""
import argparse
import json
import statistics
import sys
import time


def per_call(torch, device, work, seconds):
    """Median seconds of a call in rounds of about 5 ms, until they total `seconds`."""
    def rounds(calls):
        if device == "cpu":
            begin = time.perf_counter()
            for _ in range(calls):
                work()
            return (time.perf_counter() - begin) / calls
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            work()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / calls

    for _ in range(3):
        rounds(1)
    calls = max(1, round(5e-3 / rounds(3)))
    times, total = [], 0.0
    while total < seconds or len(times) < 5:
        times.append(rounds(calls))
        total += times[-1] * calls
    return statistics.median(times)


def attention(torch, device, sizes, seconds):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
                "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}
    images, heads, tokens, width = sizes
    flops = 4 * images * heads * tokens * tokens * width
    for deterministic in (False, True):
        torch.use_deterministic_algorithms(deterministic)
        for name, backend in backends.items():
            if (name == "math") != (device == "cpu"):
                continue
            q, k, v = (torch.randn(sizes, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
            dy = torch.randn(sizes, device=device, dtype=torch.bfloat16)

            def forward():
                with sdpa_kernel(backend):
                    return scaled_dot_product_attention(q, k, v)

            for direction, products in (("forward", 1), ("backward", 2.5)):
                line = {"op": "attention", "by": name, "direction": direction, "deterministic": deterministic,
                        "sizes": sizes}
                try:
                    with torch.set_grad_enabled(direction == "backward"):
                        y = forward()
                        work = forward if direction == "forward" else lambda: torch.autograd.grad(
                            y, (q, k, v), dy, retain_graph=True)
                        each = per_call(torch, device, work, seconds)
                    yield {**line, "ms": round(1e3 * each, 4), "gflops": round(products * flops / each * 1e-9, 1)}
                except (RuntimeError, ValueError) as error:
                    yield {**line, "skipped": str(error).strip().split("\n")[0][:200]}
    torch.use_deterministic_algorithms(False)


def product(torch, device, side, seconds):
    a, b = (torch.rand(side, side, device=device, dtype=torch.bfloat16) * 2 - 1 for _ in range(2))
    c = torch.empty_like(a)
    each = per_call(torch, device, lambda: torch.matmul(a, b.t(), out=c), seconds)
    yield {"op": "product", "side": side, "ms": round(1e3 * each, 4), "gflops": round(2 * side**3 / each * 1e-9, 1)}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options.add_argument("--seconds", type=float, default=0.2, help="of each attention; the product has 0.5")
    args = options.parse_args()
    try:
        import torch
    except ImportError:
        print(f"peers: skipped, {sys.executable} lacks torch", file=sys.stderr)
        sys.exit(3)
    on_gpu = args.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        print("peers: torch sees no GPU", file=sys.stderr)
        sys.exit(3)
    where = {"torch": torch.__version__, "device": torch.cuda.get_device_name() if on_gpu else "cpu"}
    with_sizes = ((8192, (256, 6, 196, 64)) if on_gpu else (256, (2, 2, 16, 16)))
    for line in product(torch, args.device, with_sizes[0], 0.5 if on_gpu else 0.01):  # first: the GPU is cool
        print(json.dumps({**where, **line}), flush=True)
    for line in attention(torch, args.device, with_sizes[1], args.seconds if on_gpu else 0.01):
        print(json.dumps({**where, **line}), flush=True)


if __name__ == "__main__":
    main()
