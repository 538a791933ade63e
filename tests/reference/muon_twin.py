"""Measures how far Muon in float is from torch.optim.Muon, whose products are bfloat16.

Repeats the steps of the fixtures optim/muon*.safetensors, which the tests compare normlab with, using torch.optim.Muon.
Prints the distance of the matrices' changes from the fixtures': ||ours - torch|| / ||change||.

    pip install torch safetensors numpy
    python tests/reference/muon_twin.py tests/reference/newer/optim
"""
import argparse
import glob
import json
import os

import torch
from safetensors import safe_open


def trained(tensors, config, steps):
    matrices = {k: torch.nn.Parameter(tensors["in/" + k].clone()) for k in config["muon"]}
    optimizer = torch.optim.Muon(matrices.values(), lr=1.0, weight_decay=config["wd"], momentum=config["mu"],
                                 nesterov=config["nesterov"], eps=config["eps"], adjust_lr_fn=config["scale"],
                                 ns_coefficients=tuple(config["coefficients"]))
    for step in range(1, steps + 1):
        for k, p in matrices.items():
            p.grad = tensors[f"grad{step}/{k}"].clone()
        for group in optimizer.param_groups:
            group["lr"] = config["rates"][step - 1]
        optimizer.step()
    return {k: p.detach() for k, p in matrices.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    for path in sorted(glob.glob(os.path.join(parser.parse_args().folder, "muon*.safetensors"))):
        with safe_open(path, "pt") as file:
            config = json.loads(file.metadata()["config"])
            tensors = {k: file.get_tensor(k) for k in file.keys()}
        steps = max(int(k[len("out/step"):].split("/")[0]) for k in tensors if k.startswith("out/step"))
        theirs = trained(tensors, config, steps)
        for k in config["muon"]:
            change = tensors[f"out/step{steps}/{k}"].double() - tensors["in/" + k].double()
            distance = theirs[k].double() - tensors[f"out/step{steps}/{k}"].double()
            print(f"{os.path.basename(path)[:-12]:22} {k:26} {steps} steps: {distance.norm() / change.norm():.2%}")


if __name__ == "__main__":
    main()
