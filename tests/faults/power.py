"""Loses the power after each change that a run makes to its folder: what was not synced is gone, and the same command
must end as if nothing had been. A result that was shown must still be there."""
import hashlib
import os
import re

import outcome as rig


class Node:
    """A file or a folder: what programs see now, and what is on the disk."""

    def __init__(self, folder):
        self.now = {} if folder else b""
        self.kept = {} if folder else b""

    @property
    def is_folder(self):
        return isinstance(self.now, dict)


class Disk:
    """The folder ROOT as POSIX promises it: fsync keeps a file's bytes, fsync of a folder its names, nothing else does."""

    def __init__(self, root):
        self.root, self.top, self.files = root, Node(True), {}

    def place(self, path):
        """The folder that holds `path`, and its name in there."""
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
                return  # the rig's own, such as standard output
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
        elif kind == "link":
            target, new = self.place(fields[1])
            target.now[new] = self.node(fields[0])
        elif kind == "remove":
            folder, name = self.place(fields[0])
            folder.now.pop(name, None)

    def after_loss(self, model):
        """Path to bytes, and None for folders. Models: "names" loses all that was not synced; "data" keeps all names, and
        of each file only the bytes that were synced; "zeros" has zeros in place of the others."""
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


def shown_trials(kind, fields, data, stdout):
    """Beginnings of the ids that this record tells a reader to be finished: a line of a log, or the table."""
    if kind == "write" and "/logs/" in fields[2]:
        return re.findall(rb"Z ([0-9a-f]{12}) .*: ends: done", data)
    if kind == "out":
        stdout.append(data)
    return []


def work(faults, scenario, expected, share):
    """One task for each different state of the disk after a loss."""
    folder = os.path.join(faults.folder, "recorded")
    scenario.begin(folder)
    record = os.path.join(folder, "record")
    ended, _ = faults.call(scenario, folder, record=record, root=folder)
    if ended.code != 0:
        rig.fail_early(f"faults: the recorded run ended with code {ended.code}: {ended.err}")
    tasks, seen = [], set()
    for model in ("names", "data", "zeros"):
        disk, shown, stdout = Disk(folder), set(), []
        for number, (kind, fields, data) in enumerate(records(record)):
            disk.apply(kind, fields, data)
            shown |= set(shown_trials(kind, fields, data, stdout))
            if stdout:
                shown = {trial[:12].encode() for trial in expected["trials"]}
            tree = disk.after_loss(model)
            key = hashlib.sha256(repr((sorted(tree.items()), sorted(shown))).encode()).digest()
            if key not in seen:
                seen.add(key)
                tasks.append((lose, faults, scenario, expected, f"power lost after change {number} ({kind}), {model}", tree, set(shown)))
    drawn = tasks if share >= 1 else faults.random.sample(tasks, max(1, round(share * len(tasks))))
    print(f"faults: power: {len(drawn)} of {len(tasks)} states of the disk", flush=True)
    return drawn


def lose(faults, scenario, expected, where, tree, shown):
    folder = faults.new_folder()
    os.makedirs(folder)
    for path, data in tree.items():
        place = os.path.join(folder, path)
        if data is None:
            os.makedirs(place)
        else:
            with open(place, "wb") as file:
                file.write(data)
    check = faults.checks.check
    found = {trial[:12].encode() for trial, result in rig.outcomes(os.path.join(folder, "out")).items() if result["status"] != "failed"}
    good = check(shown <= found, where, f"a result that was shown is lost: {shown - found}")
    ended = rig.call(scenario.command(folder), folder)
    good &= check(ended.code == 0, where, f"the same command ends with code {ended.code}: {ended.err[-600:]}")
    result = scenario.result(folder, ended)
    for key in ("out", "trials"):
        good &= check(result[key] == expected[key], where, f"another \"{key}\": {str(result[key])[:600]}")
    left = rig.leftovers(os.path.join(folder, "out"))
    good &= check(not left, where, f"left behind: {left}")
    if good:
        rig.remove(folder)
    return 1
