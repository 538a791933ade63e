"""One optimisation step of a ViT in plain JAX on the CPU, fp32: forward, backward, clipping at 1, AdamW, in one jit.

    pip install jax
    python tests/bench/peers/jax_step.py --shape tiny --threads 2 --seconds 5 --format json

The network of torch_step.py: pre-LN, exact GELU, learned positions, mean over tokens, head. XLA uses as many threads
as the process has cores, so --threads sets its cores. Without jax, it reports this and exits with 3.
"""
import os
import sys

from measure import TIMM, measure, parser, sizes

B1, B2, EPS, RATE, DECAY = 0.9, 0.999, 1e-8, 1e-3, 0.05


def main():
    args = sizes(parser(__doc__).parse_args())
    if args.shape in TIMM:
        sys.exit(f"jax_step: --shape {args.shape}: plain ViTs alone")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.threads])  # before XLA counts the cores
    os.environ["JAX_PLATFORMS"] = "cpu"
    try:
        import jax
    except ImportError:
        print(f"jax_step: skipped, {sys.executable} has no jax (pip install jax)", file=sys.stderr)
        sys.exit(3)
    from jax import numpy as jnp

    width, hidden, side = args.width, 4 * args.width, args.image // args.patch
    keys = iter(jax.random.split(jax.random.key(0), 8 * args.depth + 8))

    def linear(inputs, outputs):
        weight = 0.02 * jax.random.truncated_normal(next(keys), -2, 2, (inputs, outputs))
        return {"w": weight, "b": jnp.zeros(outputs)}

    def norm():
        return {"gamma": jnp.ones(width), "beta": jnp.zeros(width)}

    params = {
        "patch": linear(3 * args.patch**2, width),
        "positions": 0.02 * jax.random.normal(next(keys), (side * side, width)),
        "blocks": [{"norm1": norm(), "qkv": linear(width, 3 * width), "proj": linear(width, width),
                    "norm2": norm(), "fc1": linear(width, hidden), "fc2": linear(hidden, width)}
                   for _ in range(args.depth)],
        "norm": norm(),
        "head": linear(width, args.classes),
    }

    def apply_linear(p, x):
        return x @ p["w"] + p["b"]

    def layer_norm(p, x):
        mean = x.mean(-1, keepdims=True)
        variance = jnp.square(x - mean).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-6) * p["gamma"] + p["beta"]

    def attention(p, x):
        batch, tokens, _ = x.shape
        qkv = apply_linear(p["qkv"], x).reshape(batch, tokens, 3, args.heads, width // args.heads)
        q, k, v = qkv.transpose(2, 0, 3, 1, 4)  # [B, H, N, d] each
        weights = jax.nn.softmax(q @ k.swapaxes(-1, -2) * (width // args.heads) ** -0.5)
        return apply_linear(p["proj"], (weights @ v).transpose(0, 2, 1, 3).reshape(batch, tokens, width))

    def loss(params, images, labels):
        batch = images.shape[0]
        patches = images.reshape(batch, side, args.patch, side, args.patch, 3).transpose(0, 1, 3, 2, 4, 5)
        x = apply_linear(params["patch"], patches.reshape(batch, side * side, -1)) + params["positions"]
        for p in params["blocks"]:
            x = x + attention(p, layer_norm(p["norm1"], x))
            h = apply_linear(p["fc1"], layer_norm(p["norm2"], x))
            x = x + apply_linear(p["fc2"], jax.nn.gelu(h, approximate=False))
        logits = apply_linear(params["head"], layer_norm(params["norm"], x).mean(1))
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()

    def update(params, m, v, t, images, labels):
        value, grads = jax.value_and_grad(loss)(params, images, labels)
        length = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
        grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, 1.0 / (length + 1e-6)), grads)
        m = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, m, grads)
        v = jax.tree.map(lambda v, g: B2 * v + (1 - B2) * g * g, v, grads)
        c1, c2 = 1 - B1**t, 1 - B2**t
        params = jax.tree.map(
            lambda p, m, v: p * (1 - RATE * DECAY) - RATE * (m / c1) / (jnp.sqrt(v / c2) + EPS), params, m, v)
        return params, m, v, t + 1, value

    images = jax.random.normal(next(keys), (args.batch, args.image, args.image, 3))
    labels = jax.random.randint(next(keys), (args.batch,), 0, args.classes)
    jitted = jax.jit(update, donate_argnums=(0, 1, 2, 3))
    state = [params, *(jax.tree.map(jnp.zeros_like, params) for _ in range(2)), jnp.ones(())]

    def step():
        *state[:], value = jitted(*state, images, labels)
        value.block_until_ready()
        jax.block_until_ready(state)

    measure(args, step, precision="fp32", jax=jax.__version__)


if __name__ == "__main__":
    main()
