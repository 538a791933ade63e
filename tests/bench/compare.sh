#!/usr/bin/env bash
# One optimisation step here and in PyTorch, taken in turns on the same cores.
#   PYTHON=~/venv/bin/python tests/bench/compare.sh [SHAPE...]      shapes: micro tiny small, all three where none is named
# PYTHON needs torch, timm and numpy. Settings: NORMLAB=build/normlab THREADS=2 SECONDS_EACH=5 ROUNDS=3
# PEER_FLAGS="--compile" (or --precision bf16; then set NORMLAB_FLAGS too, which bench step gets).
# PyTorch runs as installed and, where the CPU is not Intel's and there is a C compiler, with MKL's AVX-512 kernels opened.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=${PYTHON:-python3}
normlab=${NORMLAB:-build/normlab}
threads=${THREADS:-2} seconds=${SECONDS_EACH:-5} rounds=${ROUNDS:-3}
shapes=("$@")
[ ${#shapes[@]} -gt 0 ] || shapes=(micro tiny small)

[ -x "$normlab" ] || { echo "$normlab is not there: run make, or set NORMLAB" >&2; exit 3; }
"$python" -c 'import timm, torch' 2>/dev/null || { echo "$python lacks torch or timm: set PYTHON" >&2; exit 3; }
for name in "${!OPENBLAS_@}"; do unset "$name"; done  # most shells have none

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
peers=(torch)
if ! grep -q GenuineIntel /proc/cpuinfo && command -v cc >/dev/null; then
  echo 'int mkl_serv_intel_cpu_true(void) { return 1; }' >"$folder/intel.c"
  cc -shared -fPIC "$folder/intel.c" -o "$folder/libintel.so" && peers+=(torch+avx512)
fi

echo "load average before: $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) cores"
if awk -v cores="$(nproc)" '{ exit !($1 > cores / 4) }' /proc/loadavg; then
  echo "The machine is busy. OpenMP's threads spin for one another, so PyTorch may look many times slower than it is." >&2
fi
for shape in "${shapes[@]}"; do
  for ((round = 0; round < rounds; ++round)); do
    # shellcheck disable=SC2086 # flags are words
    "$normlab" bench step --shape "$shape" --threads "$threads" --seconds "$seconds" --format json \
      ${NORMLAB_FLAGS:-} >"$folder/$shape.normlab.$round"
    for peer in "${peers[@]}"; do
      preload=""
      [ "$peer" = torch ] || preload="$folder/libintel.so"
      # shellcheck disable=SC2086
      LD_PRELOAD=$preload "$python" tests/bench/peers/torch_step.py --shape "$shape" --threads "$threads" \
        --seconds "$seconds" --format json ${PEER_FLAGS:-} >"$folder/$shape.$peer.$round"
    done
  done
done

"$python" - "$folder" "$rounds" "$threads" "${shapes[*]}" "${peers[*]}" <<'END'
import json, pathlib, statistics, sys
folder, rounds, threads, shapes, peers = sys.argv[1:]
print(f"medians of {rounds} rounds, {threads} threads; a ratio above 1 is in favour of normlab")
print(f"{'shape':8}{'program':14}{'images/s':>10}{'ratio':>8}{'peak MB':>10}{'ratio':>8}   images/s of each round")
for shape in shapes.split():
    for program in ["normlab", *peers.split()]:
        files = (pathlib.Path(folder, f"{shape}.{program}.{r}") for r in range(int(rounds)))
        runs = [json.loads(file.read_text()) for file in files]
        speed, peak = (statistics.median(run[key] for run in runs) for key in ("images_per_second", "peak_mb"))
        if program == "normlab":
            our_speed, our_peak = speed, peak
        each = " ".join(f"{run['images_per_second']:.0f}" for run in runs)
        print(f"{shape:8}{program:14}{speed:10.1f}{our_speed / speed:8.2f}{peak:10.1f}{peak / our_peak:8.2f}   {each}")
END
