"""torch_step.py for many cases in one process, one line of JSON each, within a time limit.

    python tests/bench/peers/torch_steps.py --device cuda --limit 200
    python tests/bench/peers/torch_steps.py --cases micro:2:bf16:eager --steps 2     a dry run on the CPU

A case is SHAPE:BATCH:PRECISION:MODE; MODE is eager or compiled (torch.compile, on a GPU with mode="max-autotune"). The
default is all of micro, tiny and small (32 and 256 images, the latter ViT-S/16 at 224) in fp32, tf32 and bf16, the most
informative first, since compiling takes seconds to minutes each. A case that fails or does not begin within --limit
seconds gives a line with "skipped" and the reason.
"""
import argparse
import gc
import json
import sys
import time

from measure import SHAPES, device_options, parser, sizes

NETWORKS = ("small:256", "micro:64", "tiny:128", "small:32")
CASES = [f"{network}:{precision}:{mode}" for precision, modes in (
    ("bf16", ("eager", "compiled")), ("tf32", ("eager",)), ("fp32", ("eager",)),
    ("tf32", ("compiled",)), ("fp32", ("compiled",))) for network in NETWORKS for mode in modes]


def case(word):
    parts = word.split(":")
    if len(parts) != 4 or parts[0] not in SHAPES or not parts[1].isdigit() or int(parts[1]) < 1 or parts[
            2] not in ("fp32", "tf32", "bf16") or parts[3] not in ("eager", "compiled"):
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
        args.shape, args.batch, args.precision, args.compile = shape, int(batch), precision, mode == "compiled"
        skipped = None
        if time.perf_counter() - begin > common.limit:
            skipped = f"not begun within {common.limit:g} s"
        else:
            try:
                torch_step.run(sizes(args))
            except (RuntimeError, AssertionError) as error:  # out of memory, no compiler: continue with the other cases
                skipped = str(error).strip().split("\n")[0][:200]
            torch._dynamo.reset()  # frees the code compiled for this case
            gc.collect()
            if args.device == "cuda":
                torch.cuda.empty_cache()
        if skipped:
            print(json.dumps({"shape": shape, "batch": args.batch, "device": args.device, "precision": precision,
                              "compiled": args.compile, "skipped": skipped}), flush=True)


if __name__ == "__main__":
    main()
