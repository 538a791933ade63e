"""Registers, shared memory and spills of the GPU's kernels as Markdown, from the output of ptxas.

    python3 tests/gpu/registers.py build/cuda/*.ptxas      (`make cuda-report` builds the kernels and writes the page)

Each row is a kernel with its functor; the numbers are maxima over its types.
"""
import collections
import re
import subprocess
import sys
from pathlib import Path

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\w+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def demangled(names):
    names = sorted(names)
    out = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, out.splitlines()))


def short(signature):
    """`void a::b::kernel<2, float, a::(anonymous namespace)::Terms<bf16> >(...)` as `kernel Terms`."""
    plain = re.sub(r"\(anonymous namespace\)::|normlab::|cuda::", "", signature)
    kernel = re.search(r"(\w+)[<(]", plain).group(1)
    arguments = plain[plain.index(kernel) + len(kernel):].split("(", 1)[0]
    functors = [f for f in re.findall(r"\b[A-Z]\w*", arguments)]
    return " ".join([kernel, *functors[:1]])


def read(paths):
    """(file, mangled name, architecture) -> a dictionary of numbers."""
    found, entry = {}, None
    for path in paths:
        for line in Path(path).read_text().splitlines():
            if match := ENTRY.search(line):
                entry = found.setdefault((Path(path).stem, *match.groups()), {"shared": 0, "spills": 0, "stack": 0})
            elif entry is not None and (match := SPILLS.search(line)):
                stack, stores, loads = map(int, match.groups())
                entry.update(stack=stack, spills=stores + loads)
            elif entry is not None and (match := USED.search(line)):
                entry["registers"] = int(match.group(1))
                if match := SHARED.search(line):
                    entry["shared"] = int(match.group(1))
                entry = None
    return found


def main():
    found = read(sys.argv[1:])
    if not found:
        sys.exit("registers.py: these files name no kernel; build with `make CUDA=1`")
    names = demangled({name for _, name, _ in found})
    architectures = sorted({a for *_, a in found}, key=lambda a: (int(re.sub(r"\D", "", a)), a))
    rows = collections.defaultdict(lambda: collections.defaultdict(int))
    spilling = []
    for (file, name, architecture), numbers in found.items():
        row = rows[file, short(names[name])]
        row[architecture] = max(row[architecture], numbers["registers"])
        for key in ("shared", "spills", "stack"):
            row[key] = max(row[key], numbers[key])
        if numbers["spills"]:
            spilling.append((file, names[name].split("(")[0], architecture, numbers["spills"]))

    print("# Registers of the GPU's kernels\n")
    print("Written by `make cuda-report` from what ptxas says of each kernel. A row is a kernel, with the functor that it")
    print("runs where it has one; each number is the largest over its types (f32, f64, bf16). Registers of a thread, by")
    print("architecture; shared: bytes of a block that are fixed when it is compiled; stack: bytes of a thread that lie in")
    print("memory because they are indexed, or for calls.\n")
    kernels = len({(file, name) for file, name, _ in found})
    print(f"{kernels} kernels in {len(rows)} rows; {len({s[:2] for s in spilling})} of them spill registers.\n")
    print("| file | kernel | " + " | ".join(architectures) + " | shared | stack | spills |")
    print("|---|---|" + "---|" * (len(architectures) + 3))
    for (file, kernel), row in sorted(rows.items()):
        cells = [str(row[a]) if a in row else "" for a in architectures]
        cells += [str(row[key]) if row[key] else "" for key in ("shared", "stack", "spills")]
        print(f"| {file} | {kernel} | " + " | ".join(cells) + " |")
    if spilling:
        print("\n## Spills\n\n| file | kernel | architecture | bytes stored and loaded |\n|---|---|---|---|")
        for file, name, architecture, spills in sorted(spilling):
            plain = re.sub(r"\(anonymous namespace\)::|normlab::|cuda::|void ", "", name)
            print(f"| {file} | `{plain}` | {architecture} | {spills} |")


if __name__ == "__main__":
    main()
