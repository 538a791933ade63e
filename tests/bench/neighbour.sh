#!/usr/bin/env bash
# Times a step on two threads, alone and with one busy loop, which should cost only its share of the cores.
#   tests/bench/neighbour.sh [SHAPE]         micro by default
# On two cores, the loop leaves between 2/3 (three threads, equal shares) and 3/4 (it stays on one core and halves it)
# of the speed. A program whose threads wait for each other in turns would drop to one half.
# Settings: NORMLAB=build/normlab THREADS=2 SECONDS_EACH=5 ROUNDS=3
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

normlab=${NORMLAB:-build/normlab} threads=${THREADS:-2} seconds=${SECONDS_EACH:-5} rounds=${ROUNDS:-3}
shape=${1:-micro}
[ -x "$normlab" ] || { echo "$normlab is not there: run make, or set NORMLAB" >&2; exit 3; }

neighbour=""
stop_neighbour() {
  if [ -n "$neighbour" ]; then
    kill "$neighbour" 2>/dev/null || true
    wait "$neighbour" 2>/dev/null || true
  fi
  neighbour=""
}
trap stop_neighbour EXIT
measure() {  # images per second and the load of other processes
  "$normlab" bench step --shape "$shape" --threads "$threads" --seconds "$seconds" --format json |
    sed 's/.*"images_per_second": \([0-9.]*\).*"load": \([0-9.a-z]*\).*/\1 \2/'
}
median() { sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

alone=() beside=() busiest=0
for ((round = 0; round < rounds; ++round)); do
  read -r speed load <<<"$(measure)"
  alone+=("$speed")
  busiest=$(printf '%s\n' "$busiest" "$load" | sort -g | tail -1)
  (while :; do :; done) &
  neighbour=$!
  read -r speed load <<<"$(measure)"
  beside+=("$speed")
  stop_neighbour
done
a=$(printf '%s\n' "${alone[@]}" | median) b=$(printf '%s\n' "${beside[@]}" | median)
echo "$shape, $threads threads on $(nproc) cores, images a second, medians of $rounds rounds"
echo "  alone               $a   (${alone[*]})"
echo "  beside a busy loop  $b   (${beside[*]})"
awk -v a="$a" -v b="$b" 'BEGIN {
  verdict = b / a > 0.5 ? "not halved" : "HALVED"
  printf "  ratio               %.2f  (fair: 0.67 to 0.75 on two cores; %s)\n", b / a, verdict
}'
if awk -v l="$busiest" 'BEGIN { exit !(l > 0.1) }'; then
  echo "NOT WORTH PUBLISHING: while it ran alone, other processes used up to $busiest cores"
fi
