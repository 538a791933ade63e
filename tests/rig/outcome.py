"""How tests/faults and tests/kills run normlab and read its results folders."""
import hashlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time

GONE_SECONDS = 20  # for processes to end after their parent


def fail_early(text):
    raise SystemExit(text)


def binary(build):
    path = os.path.abspath(os.path.join(build, "normlab"))
    return path if os.access(path, os.X_OK) else fail_early(f"{path} is not built")


def clean_environment():
    """The environment without settings that change results or the data folder."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS", "NORMLAB", "LD_PRELOAD", "FAULTS"))}


class Ended:
    def __init__(self, code, out, err, hung, orphans):
        self.code, self.out, self.err, self.hung, self.orphans = code, out, err, hung, orphans


class Process:
    """One call of normlab in its own process group, so that signals reach only this call."""

    def __init__(self, command, folder, environment=None):
        self.files = [open(os.path.join(folder, name), "w+b") for name in ("stdout", "stderr")]
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.files[0], stderr=self.files[1],
                                      env=environment or clean_environment(), start_new_session=True)
        self.pid = self.child.pid

    def signal_group(self, number):
        """Until the process is waited for, its id and its group's id are not reused."""
        if self.child.poll() is not None:
            return False
        os.killpg(self.pid, number)
        return True

    def wait(self, seconds):
        hung = False
        try:
            code = self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            hung, code = True, -signal.SIGKILL
        orphans = [] if hung else self.wait_for_group()
        for pid in group_members(self.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if hung:
            self.child.wait()
        texts = []
        for file in self.files:
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
        return Ended(code, texts[0], texts[1], hung, orphans)

    def wait_for_group(self):
        end = time.monotonic() + GONE_SECONDS
        while (members := group_members(self.pid)) and time.monotonic() < end:
            time.sleep(0.01)
        return members


def group_members(group):
    """Live processes of a group, read from /proc instead of by sending a signal."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] not in "ZX":
            found.append(int(name))
    return found


def call(command, folder, environment=None, seconds=300):
    os.makedirs(folder, exist_ok=True)
    return Process(command, folder, environment).wait(seconds)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def weights_hash(path):
    """SHA-256 of a safetensors file's tensors, without the metadata, which contain times."""
    data = read(path)
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    digest = hashlib.sha256()
    for name in sorted(header):
        if name != "__metadata__":
            begin, end = header[name]["data_offsets"]
            digest.update(name.encode() + b"\0" + data[8 + size + begin : 8 + size + end])
    return digest.hexdigest()


KEPT = ("id", "status", "seed", "metrics", "nonfinite", "slices", "steps", "stopped_early_step", "early_stop_rule",
        "diverged_step", "diverged_rule", "diverged_site")


def trial_outcome(folder):
    """A trial's result without times and hosts; None if there is no result."""
    try:
        result = json.loads(read(os.path.join(folder, "result.json")))
    except FileNotFoundError:
        return None
    outcome = {key: result[key] for key in KEPT if key in result}
    if result["status"] == "failed":
        return outcome
    attempt = os.path.join(folder, f"attempt-{result['attempt']}")
    for name in ("metrics.jsonl", "correct.bits"):
        path = os.path.join(attempt, name)
        outcome[name] = hashlib.sha256(read(path)).hexdigest() if os.path.exists(path) else "none"
    for name in ("checkpoint.safetensors", "weights.safetensors"):
        path = os.path.join(attempt, name)
        # A diverged trial has no final state: which attempt wrote its last checkpoint depends on chance.
        if result["status"] == "done" and os.path.exists(path):
            outcome[name] = weights_hash(path)
    return outcome


def outcomes(out):
    trials = os.path.join(out, "trials")
    names = sorted(os.listdir(trials)) if os.path.isdir(trials) else []
    found = {name: trial_outcome(os.path.join(trials, name)) for name in names}
    return {name: outcome for name, outcome in found.items() if outcome is not None}


def leftovers(out):
    """Leftover claims and temporary files."""
    found = []
    for folder, _, names in os.walk(out):
        found += [os.path.join(folder, name) for name in names
                  if name == "claim" or (name.startswith(".") and name.endswith(".tmp"))]
    return found


def without_times(text):
    return re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?Z?", "TIME", text)


def clean(normlab, sweep, out, folder):
    """Applies the sweep's checkpoint.keep, which a run that was killed after its result has not done."""
    with open(sweep) as file:
        keep = json.load(file)["checkpoint"].get("keep", "last")
    ended = call([normlab, "clean", sweep, "--out", out, "--keep", keep, "--yes"], folder)
    return ended.code == 0


class Checks:
    """Counts checks and collects failures."""

    def __init__(self, name):
        self.name, self.made, self.failures = name, 0, []

    def check(self, holds, where, what):
        self.made += 1
        if not holds:
            self.failures.append(f"{where}: {what}")
            print(f"{self.name}: FAILED: {where}: {what}", flush=True)
        return holds


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)
