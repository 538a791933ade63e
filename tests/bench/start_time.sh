#!/usr/bin/env bash
# The cost of commands without matrix products: milliseconds of user and system time, and address space, per call.
#   tests/bench/start_time.sh BINARY [OTHER]     RUNS=200 calls each; compares the second binary with the first
# Run it on a quiet machine.
set -euo pipefail
binaries=("$@")
[ ${#binaries[@]} -gt 0 ] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
runs=${RUNS:-200}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/small.json" <<'JSON'
{"dataset": {"name": "shapes", "train_images": 200, "eval_images": 50},
 "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}, "train": {"epochs": 4, "batch_size": 20},
 "sweep": {"model.placement": ["pre_pre", "bn_ffnbn"]}, "seeds": 2, "baseline": {"model.placement": "pre_pre"}}
JSON
cd "$folder"

milliseconds() {  # per call
  if command -v perf >/dev/null; then
    perf stat -x, -e task-clock -r "$runs" "$@" 2>&1 >/dev/null | awk -F, '/task-clock/ {printf "%.2f", $1}'
    return
  fi
  local TIMEFORMAT='%U %S'  # includes the shell's fork
  { time for ((i = 0; i < runs; ++i)); do "$@" >/dev/null 2>&1 || true; done; } 2>&1 |
    awk -v n="$runs" '{printf "%.2f", 1000 * ($1 + $2) / n}'
}
megabytes() {  # the least address space, in steps of 5 MB, with which it succeeds
  local mb
  for ((mb = 20; mb < 600; mb += 5)); do
    bash -c "ulimit -v $((mb * 1000)); ulimit -t 2; \"\$@\" >/dev/null" - "$@" 2>/dev/null && break
  done
  echo "$mb"
}

for i in "${!binaries[@]}"; do "${binaries[i]}" run small.json --out "r$i" >/dev/null 2>&1; done  # each reads its own results
printf '%-32s' command
for binary in "${binaries[@]}"; do printf '%12s%8s' "ms" "MB"; done
[ ${#binaries[@]} -lt 2 ] || printf '%10s' "ms/ms"
echo
for command in "--version" "check --schema" "check small.json" "plan small.json --out r" "table small.json --out r" "status small.json --out r"; do
  printf '%-32s' "$command"
  times=()
  for i in "${!binaries[@]}"; do
    # shellcheck disable=SC2206
    words=(${command/--out r/--out r$i})
    times+=("$(milliseconds "${binaries[i]}" "${words[@]}")")
    printf '%12s%8s' "${times[-1]}" "$(megabytes "${binaries[i]}" "${words[@]}")"
  done
  [ ${#binaries[@]} -lt 2 ] || awk -v a="${times[0]}" -v b="${times[1]}" 'BEGIN {printf "%10.2f", a / b}'
  echo
done
