"""Prints the table of tests/bench/compare.sh from a folder of its runs, SHAPE.PROGRAM.ROUND.json: medians over rounds.

    python tests/bench/table.py FOLDER [--markdown]
"""
import json
import pathlib
import statistics
import sys

SHAPES = ("micro", "tiny", "small", "deit_s", "swin_t")


def read(folder):
    """{shape: {program: (images per second, peak MB, runs)}}, programs in the order they ran."""
    runs = {}
    for path in sorted(pathlib.Path(folder).glob("*.json"), key=lambda path: path.stat().st_mtime_ns):
        shape, program, _ = path.name[:-len(".json")].split(".")
        runs.setdefault(shape, {}).setdefault(program, []).append(json.loads(path.read_text()))
    return {shape: {program: (statistics.median(run["images_per_second"] for run in group),
                              statistics.median(run["peak_mb"] for run in group), group)
                    for program, group in runs[shape].items()} for shape in SHAPES if shape in runs}


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def rows(programs):
    """A line per program, with ratios to normlab for the same precision and products, above 1 if normlab is faster."""
    for program, (speed, peak, group) in programs.items():
        ours = programs.get(same_products(programs, "normlab+bf16" if "bf16" in program else "normlab"))
        ratios = ["", ""] if not ours or program.startswith("normlab") else [
            f"{ours[0] / speed:.2f}", f"{peak / ours[1]:.2f}"]
        each = [run["images_per_second"] for run in group]
        spread = f"{number(min(each))}-{number(max(each))}"
        yield program, number(speed), ratios[0], number(peak), ratios[1], spread


def same_products(programs, ours):
    """normlab with all products that the others compute, if it skips some by default."""
    full = ours.replace("normlab", "normlab+full")
    return full if full in programs else ours


def headlines(programs):
    """normlab to the best other: [(words, ratio, the other)]. Tuned: all that ran, with avx512 and compiled."""
    def against(ours, others, words):
        best = max((p for p in others if p in programs), key=lambda program: programs[program][0], default=None)
        return [(words, programs[ours][0] / programs[best][0], best)] if ours in programs and best else []
    peers = [program for program in programs if not program.startswith("normlab")]
    single = [program for program in peers if "bf16" not in program]
    half = [program for program in peers if "bf16" in program]
    both = any("+full" in program for program in programs)
    return [line for full, words in ([("+full", ""), ("", ", as used")] if both else [("", "")]) for line in (
        *against(f"normlab{full}", [p for p in single if "avx512" not in p], "fp32, to the best as installed" + words),
        *against(f"normlab{full}", single, "fp32, to the best of all" + words),
        *against(f"normlab{full}+bf16", half, "bf16, to the best in bf16" + words),
        *against(f"normlab{full}+bf16", [f"normlab{full}"], "bf16, to our own fp32" + words))]


def notes(table):
    groups = [(shape, program, run) for shape, programs in table.items()
              for program, (_, _, group) in programs.items() for run in group]
    busy = [entry for entry in groups if entry[2].get("load") is None or entry[2]["load"] > 0.1]
    threads = {str(run["threads"]) for *_, run in groups}
    rounds = {str(len(group)) for programs in table.values() for *_, group in programs.values()}
    lines = [f"threads {'/'.join(sorted(threads))}, rounds {'/'.join(sorted(rounds))}"]
    versions = {f"{name} {run[name]}" for *_, run in groups for name in ("torch", "jax") if name in run}
    lines[0] += "".join(", " + version for version in sorted(versions))
    if busy:
        worst = max(busy, key=lambda entry: entry[2].get("load") or 0)
        lines.append(f"NOT WORTH PUBLISHING: {len(busy)} of {len(groups)} runs beside other work, at most "
                     f"{worst[2].get('load')} cores ({worst[0]}, {worst[1]})")
    others = {run["note"] for *_, run in groups if run.get("note") and not run["note"].startswith("other processes")}
    return lines + sorted(f"NOT WORTH PUBLISHING: {note}" for note in others)


def text(table):
    print("medians over rounds; a ratio is ours to theirs in speed, theirs to ours in memory: above 1 in our favour\n")
    print(f"{'shape':7}{'program':22}{'images/s':>9}{'ratio':>7}{'peak MB':>9}{'ratio':>7}  lowest-highest")
    for shape, programs in table.items():
        for program, speed, ratio, peak, memory, spread in rows(programs):
            print(f"{shape:7}{program:22}{speed:>9}{ratio:>7}{peak:>9}{memory:>7}  {spread}")
    for shape, programs in table.items():
        print()
        for words, ratio, best in headlines(programs):
            print(f"{shape:7}{words:43}{ratio:6.2f}  {best}")
    print("\n" + "\n".join(notes(table)))


def markdown(table):
    print("| shape | program | images/s | ours / theirs | peak MB | theirs / ours |\n|---|---|---|---|---|---|")
    for shape, programs in table.items():
        for program, speed, ratio, peak, memory, _ in rows(programs):
            print(f"| {shape} | {program} | {speed} | {ratio} | {peak} | {memory} |")
    print("\n| shape | comparison | ratio | with |\n|---|---|---|---|")
    for shape, programs in table.items():
        for words, ratio, best in headlines(programs):
            print(f"| {shape} | {words} | {ratio:.2f} | {best} |")
    print("\n" + "\n".join(notes(table)))


if __name__ == "__main__":
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= {"--markdown"}:
        sys.exit(__doc__)
    table = read(sys.argv[1])
    if not table:
        sys.exit(f"{sys.argv[1]}: no runs")
    markdown(table) if "--markdown" in sys.argv else text(table)
