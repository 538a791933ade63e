"""Shared by the peers: sizes, options, timed steps, the machine's load, the printed result. The shapes are those of
`normlab bench step`; each of their sizes can be changed."""
import argparse
import json
import os
import resource
import statistics
import time

SIZES = ("image", "patch", "width", "depth", "heads", "classes", "batch")
SHAPES = {
    "micro": (32, 4, 64, 4, 2, 10, 64),
    "tiny": (32, 4, 192, 12, 3, 10, 128),
    "small": (224, 16, 384, 12, 6, 1000, 32),
    "s16": (224, 16, 384, 12, 6, 1000, 256),
    "deit_s": (224, 16, 384, 12, 6, 1000, 32),
    "swin_t": (224, 4, 96, 12, 3, 1000, 32),
}
TIMM = {"deit_s": "deit_small_patch16_224", "swin_t": "swin_tiny_patch4_window7_224"}  # built by name
WARM_SECONDS = 1.0


def parser(description):
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--shape", choices=SHAPES, default="micro")
    for size in SIZES:
        options.add_argument(f"--{size}", type=int, help="in place of the shape's")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--seconds", type=float, default=5, help="of timed steps, after those that compile")
    options.add_argument("--steps", type=int, default=0, help="so many timed steps in place of --seconds")
    options.add_argument("--format", choices=("text", "json"), default="text")
    return options


def device_options(options):
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options.add_argument("--mode", choices=("default", "reduce-overhead", "max-autotune"), default="max-autotune",
                         help="with --compile on a GPU: torch.compile's mode")
    options.add_argument("--upload", action="store_true",
                         help="on a GPU each step's images come from pinned memory of the host, as ours do")


def sizes(args):
    """The shape's sizes, with the given ones replaced."""
    for size, value in zip(SIZES, SHAPES[args.shape]):
        if getattr(args, size) is None:
            setattr(args, size, value)
        elif args.shape in TIMM and size not in ("classes", "batch"):
            raise SystemExit(f"--{size}: {TIMM[args.shape]} has its own")
    return args


def cpu_seconds():
    """Busy seconds of all processes and of this one, or None if unknown."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    try:
        with open("/proc/stat") as stat:
            user, nice, system, _, _, irq, softirq = map(int, stat.readline().split()[1:8])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK"), own.ru_utime + own.ru_stime


def measure(args, step, together=1, **more):
    """Times `step()`, which completes `together` steps, and prints the result with `more`, whose callables are called
    at the end."""
    step()  # compiles, if enabled
    begin = time.perf_counter()
    while time.perf_counter() - begin < WARM_SECONDS:
        step()
    times, before, begin = [], cpu_seconds(), time.perf_counter()
    end = begin + args.seconds
    while len(times) < (args.steps or 3) or (not args.steps and time.perf_counter() < end):
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) / together)
    after, wall = cpu_seconds(), time.perf_counter() - begin
    load = None
    if before and after:
        load = round(max(0.0, (after[0] - before[0]) - (after[1] - before[1])) / wall, 2)
    median = statistics.median(times)
    result = {
        "shape": args.shape,
        **{key: value() if callable(value) else value for key, value in more.items()},
        "threads": args.threads,
        "batch": args.batch,
        "depth": args.depth,
        "images_per_second": round(args.batch / median, 1),
        "step_ms": round(1e3 * median, 3),
        "mean_step_ms": round(1e3 * statistics.mean(times), 3),
        "steps": len(times) * together,
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "load": load,
    }
    if args.format == "json":
        print(json.dumps(result), flush=True)
    else:
        print("\n".join(f"{key:18} {value}" for key, value in result.items()))
