#!/usr/bin/env bash
# Guess: a DataLoader with batch_size=300 on 1,000 loans becomes Poisson sampling at the rate .3: 300 loans a step are expected.
# Seen: Opacus 1.6.0 takes the rate 1 / (number of batches), so 250 are expected. batch_size=999 gives 500. With drop_last=True it
#   warns that it ignores drop_last, but the rate goes to 1/3 and 333 are expected.
# Why it matters: fraud and loan tables are small, so batches are large parts of them. The rate sets epsilon and the noise per step:
#   an epsilon computed from batch_size / rows is that of another training. Take the rate from the new loader.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -m pip install -q opacus==1.6.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - 2>"$folder/warnings" <<'PY'
from importlib.metadata import version

import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

ROWS = 1_000
print("opacus", version("opacus"), " torch", torch.__version__)
seen = {}
for batch_size, drop_last in ((10, False), (300, False), (300, True), (999, False)):
    model = torch.nn.Linear(3, 1)
    _, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(
            TensorDataset(torch.zeros(ROWS, 3)), batch_size=batch_size, drop_last=drop_last
        ),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    seen[batch_size, drop_last] = (round(loader.sample_rate, 4), optimizer.expected_batch_size)
    print(f"batch_size {batch_size}, drop_last {drop_last}: rate {loader.sample_rate:.4f}, "
          f"expected {optimizer.expected_batch_size}")
assert seen == {
    (10, False): (0.01, 10),
    (300, False): (0.25, 250),
    (300, True): (0.3333, 333),
    (999, False): (0.5, 500),
}
PY
grep -i "ignoring drop_last" "$folder/warnings"
