#!/usr/bin/env bash
# Compares one worker with two workers of one thread, and with one worker of two threads, in images a second.
#   tests/bench/efficiency.sh [SHAPE...]         micro and tiny by default
# Workers share nothing but the machine, so two of them are two training steps at once.
# Settings: NORMLAB=build/normlab SECONDS_EACH=5 ROUNDS=3
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

normlab=${NORMLAB:-build/normlab} seconds=${SECONDS_EACH:-5} rounds=${ROUNDS:-3}
[ -x "$normlab" ] || { echo "$normlab is not there: run make, or set NORMLAB" >&2; exit 3; }

measure() {  # SHAPE THREADS: images per second and the load of other processes
  "$normlab" bench step --shape "$1" --threads "$2" --seconds "$seconds" --format json |
    sed 's/.*"images_per_second": \([0-9.]*\).*"load": \([0-9.a-z]*\).*/\1 \2/'
}
median() { sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

[ $# -gt 0 ] || set -- micro tiny
for shape in "$@"; do
  one=() workers=() threads=() busiest=0
  for ((round = 0; round < rounds; ++round)); do
    read -r speed load <<<"$(measure "$shape" 1)"
    one+=("$speed")
    busiest=$(printf '%s\n' "$busiest" "$load" | sort -g | tail -1)
    workers+=("$({ measure "$shape" 1 & measure "$shape" 1; wait; } |
      awk '$1 > 0 { sum += $1; ++n } END { print sum; exit n != 2 }')")
    read -r speed load <<<"$(measure "$shape" 2)"
    threads+=("$speed")
    busiest=$(printf '%s\n' "$busiest" "$load" | sort -g | tail -1)
  done
  a=$(printf '%s\n' "${one[@]}" | median)
  echo "$shape on $(nproc) cores, images a second, medians of $rounds rounds; other processes used up to $busiest cores"
  echo "  1 worker,  1 thread   $a   (${one[*]})"
  for way in workers threads; do
    declare -n rates=$way
    b=$(printf '%s\n' "${rates[@]}" | median)
    [ $way = workers ] && name="2 workers, 1 thread " || name="1 worker,  2 threads"
    echo "  $name  $b   (${rates[*]})   efficiency $(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.2f", b / a / 2 }')"
  done
done
