"""Simulates a power loss after each change that a run makes to its folder. What was not synced is lost; the same
command must then end as if undisturbed. A result that was shown must still exist."""
import errno
import hashlib
import json
import os
import re

import outcome as rig


MODELS = ("names", "data", "zeros")


class Node:
    """A file or a folder: what programs see, and what is on the disk."""

    def __init__(self, folder):
        self.now = {} if folder else b""
        self.kept = {} if folder else b""

    @property
    def is_folder(self):
        return isinstance(self.now, dict)


class Disk:
    """The folder ROOT as POSIX guarantees it: fsync keeps a file's bytes, and fsync of a folder keeps its names."""

    def __init__(self, root, begin, inodes):
        self.root, self.top, self.files = root, Node(True), {}
        for path, data in begin.items():
            folder, name = self.place(os.path.join(root, path))
            node = folder.now[name] = folder.kept[name] = Node(data is None)
            if data is not None:
                node.now = node.kept = data
                self.files[inodes[path]] = node

    def place(self, path):
        """The folder that contains `path`, and the name in it."""
        parts = [part for part in os.path.relpath(path, self.root).split("/") if part != "."]
        node = self.top
        for part in parts[:-1]:
            node = node.now[part]
        return node, parts[-1]

    def node(self, path):
        if os.path.normpath(path) == os.path.normpath(self.root):
            return self.top
        folder, name = self.place(path)
        return folder.now[name]

    def apply(self, kind, fields, data):
        if kind in ("create", "write", "truncate", "sync"):
            inode, at, path = fields[0], int(fields[1]), fields[2]
            if kind in ("write", "truncate") and inode not in self.files:
                return  # used by the rig, such as standard output
        if kind == "create":
            folder, name = self.place(path)
            folder.now[name] = self.files[inode] = Node(False)
        elif kind == "write":
            file = self.files[inode]
            file.now = file.now[:at].ljust(at, b"\0") + data + file.now[at + len(data) :]
        elif kind == "truncate":
            file = self.files[inode]
            file.now = file.now[:at].ljust(at, b"\0")
        elif kind == "sync":
            node = self.node(path) if inode not in self.files or os.path.isdir(path) else self.files[inode]
            node.kept = dict(node.now) if node.is_folder else node.now
        elif kind == "mkdir":
            folder, name = self.place(fields[0])
            folder.now[name] = Node(True)
        elif kind == "rename":
            (source, old), (target, new) = self.place(fields[0]), self.place(fields[1])
            target.now[new] = source.now.pop(old)
        elif kind == "exchange":
            (source, old), (target, new) = self.place(fields[0]), self.place(fields[1])
            source.now[old], target.now[new] = target.now[new], source.now[old]
        elif kind == "link":
            target, new = self.place(fields[1])
            target.now[new] = self.node(fields[0])
        elif kind == "remove":
            folder, name = self.place(fields[0])
            folder.now.pop(name, None)

    def after_loss(self, model):
        """Path -> bytes, or None for folders. Models: "names" loses all that was not synced; "data" keeps all names,
        but only the synced bytes of each file; "zeros" replaces the other bytes with zeros."""
        tree = {}

        def walk(node, path):
            for name, child in (node.kept if model == "names" else node.now).items():
                below = os.path.join(path, name)
                if child.is_folder:
                    tree[below] = None
                    walk(child, below)
                elif model == "zeros":
                    kept = child.kept[: len(child.now)]
                    tree[below] = kept.ljust(len(child.now), b"\0")
                else:
                    tree[below] = child.kept

        walk(self.top, "")
        return tree


def records(path):
    data, at = rig.read(path), 0
    while at < len(data):
        end = data.index(b"\n", at)
        size, kind, *fields = data[at:end].decode().split("\t")
        yield kind, fields, data[end + 1 : end + 1 + int(size)]
        at = end + 1 + int(size)


def variants():
    """Recorded sweeps: name, changes to the small sweep, settings of the library."""
    halves = dict(dataset__train="train[:40]", dataset__minival="train[40:]", dataset__allow_absent_classes=True)
    tune = [{"axes": {"train.optimizer.lr": [1e-3, 1e-2]}, "dataset": {"train": "train[:20]", "eval": "train[20:40]"}}]
    return [
        ("recorded", {}, {}),
        ("no-links", {}, {"call": "link", "error": errno.ENOSYS, "at": 1, "stay": 1}),
        ("diverging", dict(train__optimizer={"name": "sgd", "lr": 1e9}), {}),
        ("tuned", dict(tune=tune, checkpoint__keep="weights", **halves), {}),
        ("two-stage", dict(seeds={"first": 2, "max": 3, "gain_halfwidth": 0.01}, checkpoint__keep="none"), {}),
    ]


def recorded(faults, scenario, settings, tree):
    """Runs from the contents of `tree`. Returns the folder, the inodes of its files, and the recorded changes."""
    folder = faults.new_folder()
    write_tree(folder, tree)
    inodes = {path: str(os.stat(os.path.join(folder, path)).st_ino) for path in tree}
    record = os.path.join(folder, "record")
    ended, _ = faults.call(scenario, folder, record=record, root=folder, **settings)
    if ended.code != 0:
        rig.fail_early(f"faults: a recorded run ended with code {ended.code}: {ended.err}")
    return folder, inodes, list(records(record))


def write_tree(folder, tree):
    os.makedirs(folder)
    for path, data in tree.items():
        place = os.path.join(folder, path)
        if data is None:
            os.makedirs(place)
        else:
            with open(place, "wb") as file:
                file.write(data)


def read_tree(folder):
    tree = {}
    for place, folders, names in os.walk(folder):
        tree.update({os.path.relpath(os.path.join(place, name), folder): None for name in folders})
        tree.update({os.path.relpath(os.path.join(place, name), folder): rig.read(os.path.join(place, name)) for name in names})
    return tree


def losses(faults, scenario, expected, name, begin, recording):
    """One task per distinct state of the disk after a power loss."""
    folder, inodes, changes = recording
    tasks, seen = [], set()
    for model in MODELS:
        disk, shown = Disk(folder, begin, inodes), finished_in(begin)
        for number, (kind, fields, data) in enumerate(changes):
            disk.apply(kind, fields, data)
            if kind == "write" and "/logs/" in fields[2]:
                shown |= set(re.findall(r"Z ([0-9a-f]{12}) .*: ends: (?:done|diverged)", data.decode()))
            if kind == "out":
                shown = {trial[:12] for trial in expected["trials"]}
            tree = disk.after_loss(model)
            key = hashlib.sha256(repr((sorted(tree.items()), sorted(shown))).encode()).digest()
            if key not in seen:
                seen.add(key)
                where = f"{name}: power lost after change {number} ({kind}), {model}"
                tasks.append((lose, faults, scenario, expected, where, tree, set(shown)))
    return tasks


def finished_in(tree):
    """Prefixes of the ids of trials with a result."""
    found = set()
    for path, data in tree.items():
        if not path.endswith("/result.json"):
            continue
        try:
            if json.loads(data)["status"] != "failed":
                found.add(path.split("/")[-2][:12])
        except ValueError:  # incomplete result
            pass
    return found


def work(faults, make_scenario, share):
    tasks = []
    for name, changes, settings in variants():
        scenario = make_scenario(name, changes)
        expected, _ = faults.undisturbed(scenario)
        listed = losses(faults, scenario, expected, name, {}, recorded(faults, scenario, settings, {}))
        drawn = draw(faults, listed, share)
        print(f"faults: power, {name}: {len(drawn)} of {len(listed)} states of the disk", flush=True)
        tasks += drawn
        if name == "recorded":  # again, in a run that resumes from such a state
            middle = [task for task in listed if "names" in task[4]]
            begin = middle[len(middle) // 2][5]
            listed = losses(faults, scenario, expected, "resumed", begin, recorded(faults, scenario, settings, begin))
            drawn = draw(faults, listed, share)
            print(f"faults: power, resumed: {len(drawn)} of {len(listed)} states of the disk", flush=True)
            tasks += drawn
    scenario = faults.scenario("merge")
    expected, _ = faults.undisturbed(scenario)
    folder = faults.new_folder()
    scenario.begin(folder)
    begin = read_tree(folder)
    listed = losses(faults, scenario, expected, "merge", begin, recorded(faults, scenario, {}, begin))
    drawn = draw(faults, listed, share)
    print(f"faults: power, merge: {len(drawn)} of {len(listed)} states of the disk", flush=True)
    return tasks + drawn


def draw(faults, listed, share):
    return listed if share >= 1 else faults.random.sample(listed, max(1, round(share * len(listed))))


def lose(faults, scenario, expected, where, tree, shown):
    folder = faults.new_folder()
    write_tree(folder, tree)
    lost = shown - finished_in(tree)
    faults.checks.check(not lost, where, f"a result that was shown is lost: {lost}")
    ended = rig.call(scenario.command(folder), folder)
    if faults.settle(scenario, expected, folder, ended, where + ", the same command then"):
        rig.remove(folder)
    return 1
