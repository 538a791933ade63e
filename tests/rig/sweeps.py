"""Descriptors of sweeps that train in a fraction of a second, on generated images."""
import copy
import json
import os

SMALL = {
    "about": "a small sweep",
    "dataset": {"name": "shapes", "train_images": 60, "eval_images": 30},
    "model": {"patch_size": 16, "embed_dim": 8, "depth": 1, "num_heads": 2},
    "train": {"epochs": 3, "batch_size": 20},
    "checkpoint": {"steps": 2, "seconds": 1000},
    "sweep": {"model.placement": ["pre_pre", "dpn"]},
    "seeds": 1,
    "baseline": {"model.placement": "pre_pre"},
}


def changed(**settings):
    """SMALL with other values at dotted paths, with __ for the dot; None removes a key."""
    sweep = copy.deepcopy(SMALL)
    for path, value in settings.items():
        *folders, last = path.split("__")
        place = sweep
        for name in folders:
            place = place.setdefault(name, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return sweep


def write(folder, name, sweep):
    path = os.path.join(folder, name + ".json")
    with open(path, "w") as file:
        json.dump(sweep, file, indent=1)
    return path
