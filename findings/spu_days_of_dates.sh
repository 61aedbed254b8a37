#!/usr/bin/env bash
# Guess: SPU divides by 100 by a product with 1/100 in fixed point, so 20261129 // 100 is 202577 in a ring of 64 bits, and right, 202611,
#   in one of 128 bits. Two engineers guessed so; somebody who does not know SPU expects integers to be divided exactly.
# Seen: SPU 0.9.5 (SEMI2K and ABY3, simulated) gives 202610 in both rings, and 129 for 20261129 % 100: off by one quotient, whatever the
#   ring. // 10_000 is right, and so are // 10 and % 10 of numbers up to 654,321. Nothing is raised or printed about it.
# Why it matters: months and days from dates, folds by id % k and check digits come from secret integers of this size. The year is right,
#   every month in this table is one too small, and a day is 129.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q spu==0.9.5 jax==0.4.34 jaxlib==0.4.34 numpy==1.26.4
cat > "$folder/dates.py" <<'PY'
import jax
import numpy as np
import spu
import spu.utils.simulation as simulation

print("spu", spu.__version__, " jax", jax.__version__, " numpy", np.__version__)


def runtimes():
    for holders, protocol in ((2, spu.ProtocolKind.SEMI2K), (3, spu.ProtocolKind.ABY3)):
        for field in (spu.FieldType.FM64, spu.FieldType.FM128):
            yield holders, spu.RuntimeConfig(protocol=protocol, field=field)


def run(holders, config, function, *numbers):
    return np.asarray(simulation.sim_jax(simulation.Simulator(holders, config), function)(*numbers))


dates = np.array([20261129, 20250131, 20240229, 19991231], np.int32)
small = np.array([20, 99, 12345, 654321], np.int32)
for holders, config in runtimes():
    year = run(holders, config, lambda d: d // 10_000, dates)
    hundreds = run(holders, config, lambda d: d // 100, dates)
    month = run(holders, config, lambda d: d // 100 % 100, dates)
    day = run(holders, config, lambda d: d % 100, dates)
    print(f"{config.protocol.name} {config.field.name}: {dates} // 100 is {hundreds}, % 100 {day}; year {year}, month {month}")
    assert (year == dates // 10_000).all()
    assert (hundreds == dates // 100 - 1).all()
    assert (month == dates // 100 % 100 - 1).all()
    assert (day == dates % 100 + 100).all()
    assert (run(holders, config, lambda d: d // 10, small) == small // 10).all()
    assert (run(holders, config, lambda d: d % 10, small) == small % 10).all()
PY
"$folder/venv/bin/python" "$folder/dates.py" 2>/dev/null
