#!/usr/bin/env bash
# Guess: SPU's 64-bit ring with 18 fraction bits holds numbers up to 1.7e13, so a gradient [300, 400] clipped to norm 1 is [.6, .8].
# Seen: SPU 0.9.5 (SEMI2K and ABY3, simulated) gives [0, 0]. The sum of squares is right, 250,000, but sqrt and rsqrt give 0 for every
#   number above 2**17 = 131,072. [30, 40] gives [.6, .8]. With FM128 both are right. Nothing is raised or printed about it.
# Why it matters: clipping is there for the large gradients, and it is these that vanish: the training runs on and leaves out every
#   record whose norm is above 362. A standard deviation of incomes is 0 as well. Scale first, or take FM128.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q spu==0.9.5 jax==0.4.34 jaxlib==0.4.34 numpy==1.26.4
cat > "$folder/clip.py" <<'PY'
import jax
import jax.numpy as jnp
import numpy as np
import spu
import spu.utils.simulation as simulation


def clip(gradient):
    return gradient * jnp.minimum(1.0, 1.0 / jnp.linalg.norm(gradient))


print("spu", spu.__version__, " jax", jax.__version__, " numpy", np.__version__)
for holders, protocol in ((2, spu.ProtocolKind.SEMI2K), (3, spu.ProtocolKind.ABY3)):
    for field in (spu.FieldType.FM64, spu.FieldType.FM128):
        simulator = simulation.Simulator(holders, spu.RuntimeConfig(protocol=protocol, field=field))

        def run(function, *numbers):
            return np.asarray(simulation.sim_jax(simulator, function)(np.array(numbers, np.float32)))

        small, large = run(clip, 30, 40), run(clip, 300, 400)
        squares, roots = run(lambda x: jnp.sum(x * x), 300, 400), run(jnp.sqrt, 131_000, 131_200)
        deviation = run(jnp.std, 20_000, 21_000, 25_000)
        print(f"{protocol.name} {field.name}: clip [30, 40] {small.round(3)}, [300, 400] {large.round(3)}, squares {squares:.0f},")
        print(f"  sqrt of 131000 and 131200 {roots.round(1)}, std of three incomes {deviation:.0f} (plain {np.std([20e3, 21e3, 25e3]):.0f})")
        assert abs(squares - 250_000) < 1
        assert np.abs(small - [0.6, 0.8]).max() < 1e-3
        assert abs(roots[0] / 131_000**0.5 - 1) < 1e-2
        if field == spu.FieldType.FM64:
            assert (large == 0).all() and roots[1] == 0 and deviation == 0
        else:
            assert np.abs(large - [0.6, 0.8]).max() < 1e-3 and abs(roots[1] / 131_200**0.5 - 1) < 1e-2
PY
"$folder/venv/bin/python" "$folder/clip.py" 2>/dev/null
