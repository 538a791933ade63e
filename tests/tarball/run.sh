#!/usr/bin/env bash
# Makes the tarball and runs it: through links, from a path with spaces, at each level, on emulated CPUs where
# qemu-x86_64-static is installed, and the sweep on gratings in a bare Debian made by debootstrap, as a user other than root.
#   tests/tarball/run.sh [BUILD [ROOT...]]    ROOT: run a small sweep in these systems instead of the default in Debian
# ends with "tarball: passed (N checks)" or "tarball: FAILED: ..."; parts that cannot run are named with the reason
set -u
cd "$(dirname "$0")/../.."
build=${1:-build}
roots=("${@:2}")
folder=$(mktemp -d)
trap 'rm -rf --one-file-system "$folder"' EXIT
checks=0
fail() { echo "tarball: FAILED: $1"; tail -n 20 "$folder/log"; exit 1; }
check() { checks=$((checks + 1)); "${@:2}" || fail "$1"; }
says() { grep -q -- "$1" "$folder/log"; }
run() { timeout 3000 "$@" >"$folder/log" 2>&1; }
ends() { run "${@:2}"; [ $? = "$1" ]; }  # with this exit code

check "make tarball" run make BUILD="$build" tarball
tail -n 1 "$folder/log"
tarball=$(sed -n 's/\.tar\.gz: .*/.tar.gz/p' "$folder/log" | tail -1)
needs=$(sed -n 's/.*needs \(glibc [0-9.]*\).*/\1/p' "$folder/log" | tail -1)
version=$(basename "$tarball" -linux-x86_64.tar.gz)
version=${version#normlab-}
number=$(sed -n 's/^## //p' CHANGELOG.md | head -1)
[[ "$version" = "$number"+* ]] || fail "the file is named $tarball, the changelog's version is $number"
unpack() { mkdir -p "$1" && tar -xzf "$tarball" -C "$1" --strip-components=1; }
here=$folder/"a place"
check "the tarball unpacks" unpack "$here"
check "README says which glibc it needs" grep -q "$needs" "$here/README"
descriptors() { find "$here/experiments" -name '*.json' -not -path '*/recipes/*' -print0; }
reads_all() { descriptors | xargs -0 -n 1 "$here/bin/normlab" check >"$folder/log" 2>&1; }
check "its descriptors can be read with the recipes that they extend" reads_all

# Every library but glibc's comes from lib/. The program's RPATH, unlike a RUNPATH, holds for their libraries too.
foreign() { ldd "$here"/lib/* | awk '$2 == "=>" { print $3, $4 }' | grep -vE '/lib(c|m|mvec|dl|rt|pthread)\.so\.' | sort -u; }
LD_LIBRARY_PATH="$here/lib" foreign >"$folder/log"
outside() { ! grep -qv "^$folder" "$folder/log"; }
check "libraries of the tarball need only its own and glibc's" outside
no_glibc() { ! ls "$here/lib" | grep -E '^(ld-linux.*|lib(c|m|mvec|dl|rt|pthread|resolv))\.so'; }
check "glibc is the system's" no_glibc
for program in "$here"/lib/normlab-*; do
  objdump -p "$program" | grep -q 'RPATH *\$ORIGIN' || fail "$program has no RPATH"
done
licensed() { for f in "$here"/licences/lib*; do [ -s "$f" ] || return 1; done; [ "$(ls "$here/licences" | wc -l)" -gt 15 ]; }
check "licences" licensed

cat > "$folder/small.json" <<'END'
{"about": "a test", "dataset": {"name": "gratings", "train_images": 200, "eval_images": 100},
 "model": {"patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2}, "train": {"epochs": 2, "batch_size": 20},
 "sweep": {"model.placement": ["pre_pre", "bn"]}, "seeds": 1, "baseline": {"model.placement": "pre_pre"}}
END
sweep="run $folder/small.json --threads 1 --workers 1"
# A slow run also records states on the way.
bits() { (cd "$1/trials" && cat */attempt-*/metrics.jsonl && tail -qn 1 */attempt-*/states.jsonl) | sha256sum; }
equal() { [ "$(bits "$1")" = "$(bits "$2")" ]; }
states() { grep -rqs -- "$2" "$1"/trials/*/result.json; }

best=x86-64-v3
grep -m1 ^flags /proc/cpuinfo | grep -q avx512vl && best=x86-64-v4
version_is() { [ "$(cat "$folder/log")" = "normlab $version ($1)" ]; }
ln -s "$here/bin/normlab" "$folder/link"
ln -s link "$folder/second link"
for way in "$here/bin/normlab" "$folder/link" "$folder/second link"; do
  check "$way runs" run "$way" --version
  check "--version has the file's version and the best level" version_is $best
done
check "normlab is found through PATH" run env PATH="$here/bin:$PATH" normlab --version
cp "$here/bin/normlab" "$folder/copy"
check "a copy without the rest ends with 3" ends 3 "$folder/copy" --version
check "and says so" says "a symbolic link to it, not a copy"
check "an unknown level ends with 2" ends 2 env NORMLAB_LEVEL=x86-64-v9 "$here/bin/normlab" --version
check "and says which there are" says "has x86-64-v3 and x86-64-v4"

levels=(x86-64-v3)
[ $best = x86-64-v4 ] && levels+=(x86-64-v4)
for level in "${levels[@]}"; do
  export NORMLAB_LEVEL=$level
  core=Haswell
  [ $level = x86-64-v4 ] && core=SkylakeX
  check "$level is forced" run "$here/bin/normlab" --version
  check "--version names it" version_is $level
  check "$level trains" run "$here/bin/normlab" $sweep --out "$folder/$level"
  for part in "binary [0-9a-f]* ($level)" "march=$level" "\"blas_core\": \"$core\"" "glibc [0-9.]* |"; do
    check "the result states $part" states "$folder/$level" "$part"
  done
done
if [ $best = x86-64-v4 ]; then
  slow="$sweep --out $folder/other --set train.epochs=400 --set checkpoint.steps=5"
  NORMLAB_LEVEL=x86-64-v3 "$here/bin/normlab" $slow >"$folder/log" 2>&1 &
  job=$!
  for _ in $(seq 300); do ls "$folder"/other/trials/*/attempt-1/checkpoint.safetensors >/dev/null 2>&1 && break; sleep 0.1; done
  kill -INT $job
  wait $job
  NORMLAB_LEVEL=x86-64-v4 run "$here/bin/normlab" $slow && fail "another level resumes a trial"
  check "resuming at another level is refused" says "was written by another program"
  check "and both levels are named" says "binary [0-9a-f]* (x86-64-v4)"
fi
unset NORMLAB_LEVEL

if command -v qemu-x86_64-static >/dev/null; then
  check "a CPU without AVX2 ends with 3" ends 3 qemu-x86_64-static -cpu Nehalem "$here/bin/normlab" --version
  check "and is told what it lacks" says "needs a CPU of level x86-64-v3, and this one has no avx"
  # The emulator starts the chosen program on this CPU.
  check "an emulated Haswell" run qemu-x86_64-static -cpu Haswell "$here/bin/normlab" --version
  check "gets x86-64-v3" says "(x86-64-v3)"
  check "an emulated Haswell trains" run qemu-x86_64-static -cpu Haswell "$here/lib/normlab-x86-64-v3" $sweep --out "$folder/haswell"
  check "with the bits of this CPU at that level" equal "$folder/haswell" "$folder/x86-64-v3"
else
  echo "tarball: not run on emulated CPUs: there is no qemu-x86_64-static; on Debian: apt-get install qemu-user-static"
fi

# A bare system of this one's release. Its mirror is apt's.
bare() {
  local codename mirror
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' | awk -v r="$codename" '$2 == r && $3 == "main" { print $1; exit }')
  run debootstrap --variant=minbase "$codename" "$folder/root" "$mirror"
}
as_user() { run unshare -m sh -c 'mount -t proc proc "$1/proc" && exec chroot --userspec=12345:12345 "$1" sh -c "cd /home/normlab && $2"' sh "$@"; }
why=
[ "$(id -u)" = 0 ] || why="only root can make one"
command -v debootstrap >/dev/null || why="there is no debootstrap; on Debian: apt-get install debootstrap"
[ -n "$why" ] || unshare -m true 2>"$folder/log" || why="unshare is not permitted here"
if [ -n "$why" ]; then
  echo "tarball: not run in a bare system: $why"
else
  default=
  [ ${#roots[@]} = 0 ] && { check "debootstrap" bare; roots=("$folder/root"); default=1; }
  for root in "${roots[@]}"; do
    system=$(. "$root/etc/os-release" && echo "$PRETTY_NAME")
    [ -e "$root/usr/lib/x86_64-linux-gnu/libopenblas.so.0" ] && fail "$system is not bare: it has OpenBLAS"
    rm -rf "$root/home/normlab"
    unpack "$root/home/normlab"
    cp "$folder/small.json" "$root/home/normlab"
    chown -R 12345:12345 "$root/home/normlab"
    check "$system runs normlab" as_user "$root" "bin/normlab --version"
    check "$system: --version" version_is $best
    for level in "${levels[@]}"; do
      check "$system trains at $level" as_user "$root" "NORMLAB_LEVEL=$level bin/normlab run small.json --out $level"
      equal "$root/home/normlab/$level" "$folder/$level" && same=the\ same || same=other
      echo "tarball: $system, $level: $same bits as here"
      [ -z "$default" ] || check "$system: the bits of this system" [ "$same" = "the same" ]
    done
    [ -n "$default" ] || continue
    started=$SECONDS
    check "$system: the sweep on gratings" as_user "$root" "bin/normlab run experiments/placements_gratings.json"
    check "$system: with its table" says "^dpn  *[0-9.]* ±"
    echo "tarball: $system: the sweep on gratings took $((SECONDS - started)) s"
  done
fi
echo "tarball: passed ($checks checks)"
