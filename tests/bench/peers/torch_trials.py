"""Whole trainings of a small ViT in PyTorch, one after another; many_trials.sh compares `normlab run` with them.

    python tests/bench/peers/torch_trials.py --trials 60 --timed 3 --epochs 5 --train-images 6400 --eval-images 1000

Each trial has new weights, all of its steps with a cosine schedule on shuffled images that are already on the device,
and an evaluation at the end. Nothing is read, augmented or written, and the network is the plain Pre-LN one (timm), so
it does less than a trial of normlab. --compile compiles once for all trials, before timing.
Runs the first --timed trials, and uses their mean for all. Prints one line of JSON.
"""
import json
import math
import sys
import time

from measure import device_options, parser, sizes


def main():
    options = parser(__doc__)
    options.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32", help="bf16: autocast")
    options.add_argument("--compile", action="store_true", help="torch.compile, on a GPU with --mode")
    for name, value in (("trials", 60), ("timed", 3), ("epochs", 5), ("train-images", 6400), ("eval-images", 1000)):
        options.add_argument(f"--{name}", type=int, default=value)
    device_options(options)
    args = sizes(options.parse_args())
    if not 1 <= args.timed <= args.trials or args.epochs < 1 or args.train_images < args.batch or args.eval_images < 1:
        options.error("--timed from 1 to --trials, an epoch, a batch of training images, an image to evaluate")
    try:
        import torch
        import torch.nn.functional as F
        import torch_step
    except ImportError as missing:
        print(f"torch_trials: skipped, {sys.executable} lacks {missing.name}", file=sys.stderr)
        sys.exit(3)

    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    cast = torch_step.set_precision(args)
    shape = (3, args.image, args.image)
    images = torch.randn(args.train_images, *shape, device=args.device)
    labels = torch.randint(args.classes, (args.train_images,), device=args.device)
    unseen = torch.randn(args.eval_images, *shape, device=args.device)
    steps_an_epoch = args.train_images // args.batch
    steps = args.epochs * steps_an_epoch
    model = torch_step.network(args)
    forward = torch_step.compiled(args, model) if args.compile else model
    begun = {name: value.clone() for name, value in model.state_dict().items()}

    def train(seed, most=steps):
        torch.manual_seed(seed)
        model.load_state_dict(begun)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, fused=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 0.5 * (1 + math.cos(math.pi * i / steps)))
        for epoch in range(args.epochs):
            order = torch.randperm(args.train_images, device=args.device)
            for i in range(steps_an_epoch):
                if epoch * steps_an_epoch + i >= most:
                    return
                chosen = order[i * args.batch:(i + 1) * args.batch]
                with cast():
                    loss = F.cross_entropy(forward(images[chosen]), labels[chosen])
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
                optimizer.step()
                schedule.step()
        correct = 0
        with torch.no_grad(), cast():
            for batch in unseen.split(args.batch):
                if len(batch) == args.batch:  # only one size is compiled
                    correct = correct + (forward(batch).argmax(1) == 0).sum()
        float(correct)  # synchronises

    def wait():
        if args.device == "cuda":
            torch.cuda.synchronize()

    begin = time.perf_counter()
    for _ in range(3):  # compiles, and lets the libraries choose their kernels
        train(0, most=1)
    if args.compile:
        with torch.no_grad(), cast():
            forward(unseen[:args.batch] if args.eval_images >= args.batch else images[:args.batch])
    wait()
    warm = time.perf_counter() - begin
    begin = time.perf_counter()
    for seed in range(args.timed):
        train(seed)
    wait()
    trial = (time.perf_counter() - begin) / args.timed
    print(json.dumps({
        "device": args.device, "precision": args.precision, "compiled": args.compile, "torch": torch.__version__,
        "trials": args.trials, "timed": args.timed, "steps": steps, "batch": args.batch,
        "trial_seconds": round(trial, 3), "seconds": round(trial * args.trials, 2), "warm_seconds": round(warm, 2)}))


if __name__ == "__main__":
    main()
