"""torch_step.py for many cases in one process, one line of JSON each, within a time limit.

    python tests/bench/peers/torch_steps.py --device cuda --limit 200
    python tests/bench/peers/torch_steps.py --cases micro:2:bf16:eager --steps 2     a dry run on the CPU

A case is SHAPE:BATCH:PRECISION:MODE; MODE is eager, compiled (torch.compile), graphs (on a GPU with its mode
reduce-overhead) or tuned (with max-autotune). The default is all of small (256 images: ViT-S/16 at 224), tiny and micro
in bf16, tf32 and fp32, the most informative first, since compiling takes seconds to minutes each. A case that fails or
does not begin within --limit seconds gives a line with "skipped" and the reason.
"""
import argparse
import gc
import json
import sys
import time

from measure import SHAPES, device_options, parser, sizes

MODES = {"eager": None, "compiled": "default", "graphs": "reduce-overhead", "tuned": "max-autotune"}
CASES = [f"{network}:{precision}:{mode}" for precision, modes in (
    ("bf16", MODES), ("tf32", ("eager", "compiled")), ("fp32", ("eager", "compiled"))) for mode in modes
    for network in ("small:256", "tiny:128", "micro:64")]


def case(word):
    parts = word.split(":")
    if len(parts) != 4 or parts[0] not in SHAPES or not parts[1].isdigit() or int(parts[1]) < 1 or parts[
            2] not in ("fp32", "tf32", "bf16") or parts[3] not in MODES:
        raise argparse.ArgumentTypeError(f"{word}: expected SHAPE:BATCH:PRECISION:MODE, as micro:64:bf16:compiled")
    return word


def main():
    options = parser(__doc__)
    options.set_defaults(format="json")
    options.add_argument("--cases", nargs="+", type=case, default=CASES, metavar="SHAPE:BATCH:PRECISION:MODE")
    options.add_argument("--limit", type=float, default=1e9, help="seconds after which no case is begun")
    device_options(options)
    common = options.parse_args()
    begin = time.perf_counter()
    try:
        import torch
        import torch_step
    except ImportError as missing:
        print(f"torch_steps: skipped, {sys.executable} lacks {missing.name}", file=sys.stderr)
        sys.exit(3)
    for word in common.cases:
        shape, batch, precision, mode = word.split(":")
        args = argparse.Namespace(**vars(common))
        args.shape, args.batch, args.precision, args.mode = shape, int(batch), precision, MODES[mode]
        args.compile = args.mode is not None
        skipped = None
        if time.perf_counter() - begin > common.limit:
            skipped = f"not begun within {common.limit:g} s"
        else:
            try:
                torch_step.run(sizes(args), by=mode)
            except (RuntimeError, AssertionError) as error:  # out of memory, no compiler: continue with the other cases
                skipped = str(error).strip().split("\n")[0][:200]
            torch._dynamo.reset()  # frees the code compiled for this case
            gc.collect()
            if args.device == "cuda":
                torch.cuda.empty_cache()
        if skipped:
            print(json.dumps({"shape": shape, "batch": args.batch, "device": args.device, "precision": precision,
                              "by": mode, "skipped": skipped}), flush=True)


if __name__ == "__main__":
    main()
