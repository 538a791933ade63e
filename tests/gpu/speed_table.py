"""Compares steps in normlab and PyTorch.

    python3 tests/gpu/speed_table.py OURS.jsonl TORCH.jsonl

The lines of `normlab bench step --format json` and of tests/bench/peers/torch_steps.py. MB: weights, gradients, moments
and activations in normlab; the allocator's memory in PyTorch. The ratio is the time of PyTorch's fastest mode over
normlab's, above 1 if normlab is faster; the last line counts these cases. Exit code 1 without a line of normlab.
"""
import json
import sys
from pathlib import Path


def read(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines() if line.startswith("{")]


def main():
    ours, theirs = map(read, sys.argv[1:3])
    if not ours:
        sys.exit("no step of ours was measured")
    found = {(run["shape"], run["batch"], run["precision"], run["by"]): run for run in theirs}
    row = "{:<6}{:>6} {:<5}{:>9}{:>9}{:>6}{:>8}{:>6}{:>9}{:>8}{:>8}{:>6}{:>6}".format
    print(row("shape", "batch", "type", "ms", "images/s", "MB", "eager", "MB", "compiled", "graphs", "tuned", "ratio",
              "bound"))
    led = compared = 0
    for run in ours:
        key = run["shape"], run["batch"], run["precision"]
        peers = [found.get((*key, by), {}) for by in ("eager", "compiled", "graphs", "tuned")]
        times = [peer["step_ms"] for peer in peers if "step_ms" in peer]
        ratio = min(times) / run["step_ms"] if times else None
        compared, led = compared + bool(times), led + bool(times and ratio > 1)
        words = [f"{peer['step_ms']:.3f}" if "step_ms" in peer else "-" for peer in peers]
        memory = peers[0].get("gpu_peak_mb")
        print(row(*key, f"{run['step_ms']:.3f}", f"{run['images_per_second']:.0f}", f"{run['network_mb']:.0f}",
                  words[0], f"{memory:.0f}" if memory else "-", *words[1:], f"{ratio:.2f}" if ratio else "-",
                  f"{run['share']:.0%}" if "share" in run else "-"))
    skipped = sorted({run["skipped"] for run in theirs if "skipped" in run})
    for reason in skipped:
        print(f"PyTorch skipped {sum(run.get('skipped') == reason for run in theirs)}: {reason}"[:80])
    print(f"{len(ours)} cases, {compared} beside PyTorch, ahead of its fastest mode in {led}")


if __name__ == "__main__":
    main()
