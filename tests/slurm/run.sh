#!/usr/bin/env bash
# Runs a sweep through a real Slurm on this machine: slurmctld, slurmd and munged in a temporary folder. Submits the
# script of `normlab plan --format slurm`, requeues one task during a trial, and sends another the notice of its time limit.
# Each trial must finish exactly once, with the same bits as in an undisturbed sweep.
#   tests/slurm/run.sh [BUILD]        ends with "slurm: passed", "slurm: FAILED: ..." or "slurm: skipped: reason"
set -u
cd "$(dirname "$0")/../.."
build=${1:-build}
normlab=$PWD/$build/normlab

skip() { echo "slurm: skipped: $1"; exit 0; }
for program in slurmctld slurmd munged sbatch squeue scontrol; do
  command -v "$program" >/dev/null || skip "there is no $program; on Debian: apt-get install slurmctld slurmd slurm-client munge"
done
[ "$(id -u)" = 0 ] || skip "only root can start slurmd here"
[ -x "$normlab" ] || skip "$normlab is not built"

folder=$(mktemp -d)
chmod 755 "$folder"
mkdir -p "$folder"/{state,spool,munge}
chmod 700 "$folder/munge"
ctld_port=$((20000 + $$ % 20000))

# Ends the process whose id is in a file, if it is still that program.
stop() {
  local pid
  pid=$(cat "$1" 2>/dev/null) || return 0
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] && kill "$pid" 2>/dev/null
  for _ in $(seq 50); do [ -e "/proc/$pid" ] || return 0; sleep 0.1; done
  kill -9 "$pid" 2>/dev/null
}
clean_up() {
  [ -n "${job:-}" ] && scancel "$job" 2>/dev/null && sleep 3
  stop "$folder/slurmd.pid" slurmd
  stop "$folder/slurmctld.pid" slurmctld
  stop "$folder/munge/pid" munged
  rm -rf "$folder"
}
trap clean_up EXIT
fail() {
  echo "slurm: FAILED: $1"
  tail -n 20 "$folder"/*.log 2>/dev/null
  exit 1
}

head -c 1024 /dev/urandom >"$folder/munge/key"
chmod 400 "$folder/munge/key"
munged --force --key-file="$folder/munge/key" --socket="$folder/munge.sock" --pid-file="$folder/munge/pid" \
  --log-file="$folder/munge/log" --seed-file="$folder/munge/seed" || fail "munged does not start"
host=$(hostname -s)
cat >"$folder/slurm.conf" <<END
ClusterName=normlab
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$ctld_port
SlurmdPort=$((ctld_port + 1))
AuthType=auth/munge
AuthInfo=socket=$folder/munge.sock
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
KillWait=10
MpiDefault=none
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF=$folder/slurm.conf
slurmctld -f "$SLURM_CONF" || fail "slurmctld does not start"
slurmd -f "$SLURM_CONF" || fail "slurmd does not start"
for _ in $(seq 60); do [ "$(sinfo -h -o %T 2>/dev/null)" = idle ] && break; sleep 0.5; done
[ "$(sinfo -h -o %T)" = idle ] || fail "the node does not come up: $(sinfo -h -R)"

# About 15 seconds per trial on one core.
cat >"$folder/sweep.json" <<'END'
{
  "about": "Four trials for Slurm.",
  "dataset": {"name": "shapes", "train_images": 2000, "eval_images": 200},
  "model": {"patch_size": 8, "embed_dim": 48, "depth": 4, "num_heads": 4, "dropout": 0.1},
  "train": {"steps": 1500, "batch_size": 50, "eval_every_epochs": 10},
  "sweep": {"model.placement": ["pre_pre", "bn_ffnbn"]},
  "checkpoint": {"seconds": 1000},
  "seeds": 2,
  "baseline": {"model.placement": "pre_pre"}
}
END
cd "$folder" || exit 1
"$normlab" plan sweep.json --format slurm --trials-per-task 2 --out out >sweep.sbatch || fail "plan --format slurm"
grep -q -- '--array=0-1' sweep.sbatch || fail "the script has no array of two tasks"
job=$(sbatch --parsable --chdir="$folder" sweep.sbatch) || fail "sbatch does not take the script"
echo "slurm: job $job, two tasks of two trials"

training() { # trials with metrics
  find out/trials -name metrics.jsonl -size +0 2>/dev/null | wc -l
}
checkpoints() { find out/trials -name checkpoint.safetensors 2>/dev/null | wc -l; }
for _ in $(seq 240); do [ "$(training)" -ge 2 ] && break; sleep 0.5; done
[ "$(training)" -ge 2 ] || fail "nothing trains: $(squeue -h)"

# Timed checkpoints are too far apart to occur: only the stop writes one.
before=$(checkpoints)
scontrol requeue "${job}_0" || fail "scontrol requeue"
echo "slurm: requeued task 0"
for _ in $(seq 60); do [ "$(checkpoints)" -gt "$before" ] && break; sleep 0.5; done
[ "$(checkpoints)" -gt "$before" ] || fail "no checkpoint was written when the task was requeued"
# Removes the delay of about two minutes before a requeued task.
release() {
  scontrol update JobId="${job}_$1" StartTime=now 2>/dev/null
}
sleep 2
release 0

# The notice before the time limit, only to the shell of the task.
before=$(checkpoints)
scancel --batch --signal=USR1 "${job}_1" || fail "scancel --signal"
echo "slurm: USR1 to task 1"
for _ in $(seq 60); do squeue -h -t PENDING -r -o %i | grep -q "_1$" && break; sleep 0.5; done
squeue -h -t PENDING -r -o %i | grep -q "_1$" || fail "task 1 did not requeue itself: $(squeue -h -r)"
[ "$(checkpoints)" -gt "$before" ] || fail "no checkpoint was written upon USR1"
sleep 2

for _ in $(seq 600); do
  release 0
  release 1
  [ -z "$(squeue -h)" ] && break
  sleep 1
done
[ -z "$(squeue -h)" ] || fail "the tasks do not end: $(squeue -h -r)"

"$normlab" run sweep.json --out undisturbed --workers 2 --threads 1 >/dev/null 2>&1 || fail "the undisturbed run"
trials=0 resumed=0
for there in undisturbed/trials/*/; do
  id=$(basename "$there")
  [ -f "out/trials/$id/result.json" ] || fail "trial $id has no result"
  python=$(command -v python3) || skip "there is no python3 to compare with"
  "$python" - "$there" "out/trials/$id" <<'END' || fail "trial $id is not the same"
import glob, hashlib, json, os, sys

def last(folder):
    result = json.load(open(os.path.join(folder, "result.json")))
    attempt = os.path.join(folder, "attempt-%d" % result["attempt"])
    states = [json.loads(line) for line in open(os.path.join(attempt, "states.jsonl"))]
    return result, open(os.path.join(attempt, "metrics.jsonl"), "rb").read(), states[-1]

a, b = last(sys.argv[1]), last(sys.argv[2])
same = a[0]["metrics"] == b[0]["metrics"] and a[1] == b[1] and a[2] == b[2]
steps = [json.loads(line)["step"] for line in b[1].splitlines()]
claims = glob.glob(os.path.join(sys.argv[2], "claim*"))
if not same or len(steps) != len(set(steps)) or claims:
    print("metrics equal:", a[1] == b[1], "state equal:", a[2] == b[2], "claims:", claims)
    sys.exit(1)
print("slurm: trial %s: same state, %d metric lines, resumed %d times" % (b[0]["id"][:12], len(steps), b[0]["resumed"]))
END
  trials=$((trials + 1))
  grep -q '"resumed": [1-9]' "out/trials/$id/result.json" && resumed=$((resumed + 1))
done
[ "$trials" = 4 ] || fail "$trials trials in place of 4"
[ "$resumed" -ge 2 ] || fail "$resumed trials were resumed, two were disturbed"
job=
echo "slurm: passed"
