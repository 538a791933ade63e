#!/usr/bin/env bash
# Times one optimisation step in normlab and other programs, in turns on the same cores.
#   PYTHON=~/venv/bin/python tests/bench/compare.sh [--markdown] [SHAPE...]    shapes: micro tiny small by default
# Further shapes are deit_s and swin_t: timm's DeiT-S and Swin-T. In DeiT-S, normlab skips products that PyTorch
# computes, so it also runs with all of them (normlab+full), and the table has both ratios.
# PYTHON needs torch, timm and numpy; torch.compile needs g++. JAX_PYTHON, if set, needs jax.
# Settings: NORMLAB=build/normlab THREADS=2 SECONDS_EACH=5 ROUNDS=3, and which programs run:
#   PRECISIONS="fp32 bf16"      (default fp32)
#   PEERS="torch jax ..."       instead of all of: torch torch+compile torch+avx512 torch+compile+avx512 jax
#                               torch+bf16 torch+compile+bf16 (those of the PRECISIONS)
#   MARKDOWN=1                  the same as --markdown
#   KEEP=FOLDER                 keeps each run's JSON there; `python tests/bench/table.py FOLDER` prints the table again
# avx512: enables MKL's AVX-512 kernels on other CPUs than Intel's; skipped on Intel CPUs or without a C compiler.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=${PYTHON:-python3}
normlab=${NORMLAB:-build/normlab}
threads=${THREADS:-2} seconds=${SECONDS_EACH:-5} rounds=${ROUNDS:-3} precisions=${PRECISIONS:-fp32}
table=(${MARKDOWN:+--markdown}) shapes=()
for word in "$@"; do
  case $word in
    --markdown) table+=("$word") ;;
    micro | tiny | small | deit_s | swin_t) shapes+=("$word") ;;
    *) echo "compare.sh: no shape and no option: $word" >&2; exit 2 ;;
  esac
done
[ ${#shapes[@]} -gt 0 ] || shapes=(micro tiny small)

[ -x "$normlab" ] || { echo "$normlab is not there: run make, or set NORMLAB" >&2; exit 3; }
for name in "${!OPENBLAS_@}"; do unset "$name"; done  # most shells set none

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
folder=${KEEP:-$scratch/runs}
mkdir -p "$folder"
[ -z "$(ls -A "$folder")" ] || { echo "KEEP=$folder holds files already" >&2; exit 2; }
export TORCHINDUCTOR_CACHE_DIR=${TORCHINDUCTOR_CACHE_DIR:-$scratch/inductor}  # compiles once instead of once per round

programs=() defaults=""
for precision in $precisions; do
  case $precision in
    fp32)
      programs+=(normlab)
      defaults+=" torch torch+compile torch+avx512 torch+compile+avx512 ${JAX_PYTHON:+jax}"
      ;;
    bf16)
      programs+=(normlab+bf16)
      defaults+=" torch+bf16 torch+compile+bf16"
      ;;
    *) echo "PRECISIONS: fp32 and bf16, not $precision" >&2; exit 2 ;;
  esac
done
wanted=${PEERS:-$defaults}
if [[ $wanted = *avx512* ]]; then
  if grep -q GenuineIntel /proc/cpuinfo; then
    echo "This CPU is Intel's: MKL uses AVX-512 as installed, the avx512 runs are left out." >&2
  elif ! { echo 'int mkl_serv_intel_cpu_true(void) { return 1; }' >"$scratch/intel.c" &&
    "${CC:-cc}" -shared -fPIC "$scratch/intel.c" -o "$scratch/libintel.so"; }; then
    echo "No C compiler: the avx512 runs are left out." >&2
  fi
fi
compiler=yes
if [[ $wanted = *compile* ]] && ! command -v "${CXX:-g++}" >/dev/null; then
  compiler=no
  echo "No C++ compiler: the runs of torch.compile are left out." >&2
fi
for peer in $wanted; do
  case $peer in
    torch*+compile*) if [ $compiler = no ]; then continue; fi ;;&
    torch*+avx512*) [ ! -e "$scratch/libintel.so" ] || programs+=("$peer") ;;
    torch | torch+* | jax) programs+=("$peer") ;;
    *) echo "PEERS: torch, torch+compile, torch+avx512, ...+bf16 and jax, not $peer" >&2; exit 2 ;;
  esac
done
if [[ " ${programs[*]}" = *" torch"* ]]; then
  "$python" -c 'import timm, torch' 2>/dev/null || { echo "$python lacks torch or timm: set PYTHON" >&2; exit 3; }
fi
if [[ " ${programs[*]} " = *" jax "* ]] && ! "${JAX_PYTHON:-$python}" -c 'import jax' 2>/dev/null; then
  echo "${JAX_PYTHON:-$python} lacks jax: set JAX_PYTHON" >&2
  exit 3
fi

runs_of() {  # SHAPE: the programs for it
  local program
  for program in "${programs[@]}"; do
    case $1:$program in
      deit_s:jax | swin_t:jax) ;;
      deit_s:normlab*) echo "$program" "${program/normlab/normlab+full}" ;;
      *) echo "$program" ;;
    esac
  done
}
one_run() {  # PROGRAM SHAPE; prints JSON
  local common=(--shape "$2" --threads "$threads" --seconds "$seconds" --format json) flags=() preload=""
  [[ $1 = *+bf16* ]] && flags+=(--precision bf16)
  [[ $1 = *+full* ]] && flags+=(--full-forms)
  [[ $1 = *+compile* ]] && flags+=(--compile)
  [[ $1 = *+avx512* ]] && preload=$scratch/libintel.so
  case $1 in
    normlab*) "$normlab" bench step "${common[@]}" "${flags[@]}" ;;
    torch*) LD_PRELOAD=$preload "$python" tests/bench/peers/torch_step.py "${common[@]}" "${flags[@]}" ;;
    jax) "${JAX_PYTHON:-$python}" tests/bench/peers/jax_step.py "${common[@]}" ;;
  esac
}

echo "load average before: $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) cores" >&2
if awk -v cores="$(nproc)" '{ exit !($1 > cores / 4) }' /proc/loadavg; then
  echo "The machine is busy. OpenMP's threads spin for one another: PyTorch may look many times slower than it is." >&2
fi
for shape in "${shapes[@]}"; do
  for ((round = 0; round < rounds; ++round)); do
    for program in $(runs_of "$shape"); do
      echo "$shape, round $((round + 1)) of $rounds: $program" >&2
      if ! one_run "$program" "$shape" >"$folder/$shape.$program.$round.json" 2>"$scratch/err"; then
        cat "$scratch/err" >&2
        exit 3
      fi
    done
  done
done
"$python" tests/bench/table.py "$folder" "${table[@]}"
