#!/usr/bin/env bash
# Measures how a step's time grows with batch (x1, x2, x4) and depth (x1, x2, x3), and if it is linear within 5%.
#   tests/bench/linearity.sh [SHAPE...]      shapes: micro tiny small, micro and tiny by default
# Settings: NORMLAB=build/normlab THREADS=2 SECONDS_EACH=3 ROUNDS=5 FLAGS="--precision bf16" (for bench step)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

normlab=${NORMLAB:-build/normlab} threads=${THREADS:-2} seconds=${SECONDS_EACH:-3} rounds=${ROUNDS:-5}
[ -x "$normlab" ] || { echo "$normlab is not there: run make, or set NORMLAB" >&2; exit 3; }
shapes=("$@")
[ ${#shapes[@]} -gt 0 ] || shapes=(micro tiny)
declare -A batch=([micro]=64 [tiny]=128 [small]=32) depth=([micro]=4 [tiny]=12 [small]=12)

runs=$(mktemp)
trap 'rm -f "$runs"' EXIT
for shape in "${shapes[@]}"; do
  [ -n "${batch[$shape]:-}" ] || { echo "linearity.sh: no shape of that name: $shape" >&2; exit 2; }
  for ((round = 0; round < rounds; ++round)); do
    for point in "batch 1" "depth 2" "batch 2" "depth 3" "batch 4"; do  # batch 1 is also depth 1
      read -r what times <<<"$point"
      case $what in
        batch) size=$((batch[$shape] * times)) ;;
        depth) size=$((depth[$shape] * times)) ;;
      esac
      # shellcheck disable=SC2086 # flags are words
      json=$("$normlab" bench step --shape "$shape" --threads "$threads" --seconds "$seconds" --format json \
        --"$what" "$size" ${FLAGS:-})
      ms=$(sed -n 's/.*"step_ms": \([0-9.]*\).*/\1/p' <<<"$json")
      load=$(sed -n 's/.*"load": \([0-9.]*\).*/\1/p' <<<"$json")
      echo "$shape $what $times $size $ms ${load:-9}" >>"$runs"
      [ "$point" != "batch 1" ] || echo "$shape depth 1 ${depth[$shape]} $ms ${load:-9}" >>"$runs"
    done
  done
done

sort -k1,1 -k2,2 -k3,3n -k5,5n "$runs" | awk -v rounds="$rounds" -v threads="$threads" '
  # Sorted by point, then by time.
  { key = $1 " " $2 " " $3; n[key]++; ms[key, n[key]] = $5; size[key] = $4
    if (!(key in known)) { known[key] = 1; order[++points] = key }
    if ($6 > load) load = $6 }
  function median(key,   c) {
    c = n[key]
    return c % 2 ? ms[key, (c + 1) / 2] : (ms[key, c / 2] + ms[key, c / 2 + 1]) / 2
  }
  function flush_group(   i, sx, sy, sxx, sxy, a, b, from_fit, from_origin, worst_fit, worst_origin) {
    if (!count) return
    for (i = 1; i <= count; ++i) { sx += x[i]; sy += y[i]; sxx += x[i] * x[i]; sxy += x[i] * y[i] }
    b = (count * sxy - sx * sy) / (count * sxx - sx * sx); a = (sy - b * sx) / count
    for (i = 1; i <= count; ++i) {
      from_fit = 100 * (y[i] / (a + b * x[i]) - 1); from_origin = 100 * (y[i] / (x[i] * y[1] / x[1]) - 1)
      printf "%-7s%-7s%7d%11.2f%12.1f%14.1f\n", shape, what, x[i], y[i], from_fit, from_origin
      if (from_fit < 0) from_fit = -from_fit
      if (from_origin < 0) from_origin = -from_origin
      if (from_fit > worst_fit) worst_fit = from_fit
      if (from_origin > worst_origin) worst_origin = from_origin
    }
    printf "  t = %.2f + %.4f n ms; linear within 5%%: %s (at most %.1f%% off the fit)\n", a, b, \
      (worst_fit <= 5 ? "yes" : "NO"), worst_fit
    printf "  in proportion to n within 5%%: %s (at most %.1f%% off n t(1))\n\n", \
      (worst_origin <= 5 ? "yes" : "NO"), worst_origin
    count = 0
  }
  END {
    printf "medians of %d rounds, %d threads\n\n", rounds, threads
    printf "%-7s%-7s%7s%11s%12s%14s\n", "shape", "of", "n", "ms a step", "% off fit", "% off n t(1)"
    for (p = 1; p <= points; ++p) {
      split(order[p], part, " ")
      if (part[1] != shape || part[2] != what) { flush_group(); shape = part[1]; what = part[2] }
      x[++count] = size[order[p]]; y[count] = median(order[p])
    }
    flush_group()
    if (load > 0.1) printf "NOT WORTH PUBLISHING: other processes used up to %.2f cores\n", load
  }'
