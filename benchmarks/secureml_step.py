"""Bars of zhou2021's Table 3: one training step on shares, ours and SPNN's, against CrypTen's in
two processes of its own.

28-8-8-1, batch 5,000, the piecewise sigmoid everywhere, forward, backward and update. CrypTen runs
over gloo on the loopback device, one thread a process; ours are both parties in one process, on one
thread, without a network. They alternate, seven times over. Triples are given on both sides:
CrypTen's provider records the requests of a step and fills its cache before the next. The last bar
includes the dealer's work on both sides; CrypTen's first party does it while the step runs.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types
import warnings
from pathlib import Path

import torch
from bars import REPEATS, Bar, bar, on_one_thread

from ppkit.spnn.layer import SPNN
from ppkit.spnn.rivals import PiecewiseNet
from ppkit.spnn.secureml import SecureML

SIZES, BATCH, LR = (28, 8, 8, 1), 5_000, 0.5


def run() -> list[Bar]:
    """Time the bars; no bar, and a sentence that says so, where CrypTen is not installed."""
    if importlib.util.find_spec("crypten") is None:
        print(
            "skipped the bars against CrypTen: crypten is not installed "
            "(benchmarks/requirements.lock has it, without its needs)"
        )
        return []
    return _measured()


@on_one_thread
def _measured() -> list[Bar]:
    steps, loss_after = _ours()
    with _Crypten() as crypten:
        theirs = crypten.loss_after(5)
        if abs(theirs - loss_after) > 1e-3:
            raise AssertionError(
                f"CrypTen's loss after five steps is {theirs:.4f}, ours {loss_after:.4f}"
            )
        rounds = []
        for _ in range(REPEATS):
            rounds.append(
                {name: step() for name, step in steps.items()}
                | {
                    "crypten": crypten.seconds("given"),
                    "crypten with dealer": crypten.seconds("live"),
                }
            )
    print(
        {
            name: round(1000 * statistics.median(one[name] for one in rounds), 1)
            for name in rounds[0]
        },
        "ms, medians",
    )

    def ratios(numerator: str, denominator: str) -> list[float]:
        return [one[numerator] / one[denominator] for one in rounds]

    return [
        bar(
            "secureml_step_vs_crypten",
            "one step of SecureML, triples given, over CrypTen 0.4.1's, its triples given",
            ratios("secureml", "crypten"),
            threads=1,
            at_most=1.0,
        ),
        bar(
            "secureml_with_dealer_vs_crypten",
            "the same with the dealer's work on both sides",
            ratios("secureml with dealer", "crypten with dealer"),
            threads=1,
            at_most=1.0,
        ),
        bar(
            "crypten_vs_ss_step",
            "CrypTen 0.4.1's step, triples given, over one step of SPNN with protocol 'ss'",
            ratios("crypten", "ss"),
            threads=1,
            at_least=40.0,
        ),
    ]


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """X (5000, 28) float64 and y (5000,), the same on all sides."""
    rng = torch.Generator().manual_seed(0)
    X = torch.randn(BATCH, SIZES[0], generator=rng, dtype=torch.float64)
    return X, (X[:, :3].sum(dim=1) + torch.randn(BATCH, generator=rng) > 1).long()


def network() -> PiecewiseNet:
    """The start, the same on all sides."""
    return PiecewiseNet([14, 14], SIZES[1:-1], rng=torch.Generator().manual_seed(1))


def _ours() -> tuple[dict, float]:
    """Functions that return the seconds of one step each, and the loss after five steps of SecureML
    on shares."""
    X, y = data()
    parts, rows, net = list(X.split(14, dim=1)), torch.arange(BATCH), network()
    shared = SecureML(net)
    shared.prepare(parts, y)
    for _ in range(5):
        shared.step(rows, lr=LR)
    loss = float(net.loss(shared.logits(parts), y))

    def secureml() -> float:
        dealt = shared.deal(rows, lr=LR)
        return _seconds(lambda: shared.step(rows, lr=LR, dealt=dealt))

    spnn = SPNN([14, 14], SIZES[1:-1], protocol="ss", rng=torch.Generator().manual_seed(1))
    spnn.prepare([part.float() for part in parts])
    optimiser, target = torch.optim.SGD(spnn.parameters(), lr=LR), y[:, None].float()

    def spnn_step() -> None:
        optimiser.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(spnn(rows), target).backward()
        optimiser.step()

    def ss() -> float:
        seconds = []
        for _ in range(10):
            spnn.first.protocol.deal(rows)
            seconds.append(_seconds(spnn_step))
        return statistics.median(seconds)

    return {
        "secureml": secureml,
        "secureml with dealer": lambda: _seconds(lambda: shared.step(rows, lr=LR)),
        "ss": ss,
    }, loss


def _seconds(function) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


class _Crypten:
    """CrypTen's two parties, each a process that waits for a word on its standard input and answers
    with a number."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        meet = Path(self._folder.name) / "rendezvous"
        self._parties = [
            subprocess.Popen(
                [sys.executable, __file__, str(rank), meet.as_uri()],
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            for rank in range(2)
        ]
        return self

    def __exit__(self, *error) -> None:
        for party in self._parties:
            party.stdin.close()
            if error[0] is not None:
                party.kill()
            party.wait(timeout=60)
            party.stdout.close()
        self._folder.cleanup()

    def seconds(self, triples: str) -> float:
        """Of one step, of the slower party; triples: "given" or "live"."""
        return self._ask(triples)

    def loss_after(self, n_steps: int) -> float:
        """The loss after so many steps, from the start."""
        return self._ask(f"train {n_steps}")

    def _ask(self, word: str) -> float:
        for party in self._parties:
            party.stdin.write(word + "\n")
            party.stdin.flush()
        answers = [party.stdout.readline() for party in self._parties]
        if not all(answers):
            raise RuntimeError("a process of CrypTen has ended; what it wrote is above")
        return max(float(answer) for answer in answers)


def _party(rank: str, meet: str) -> None:
    """One of CrypTen's parties: the same network, data and start, in the way that CrypTen's users
    write a step."""
    sys.modules["crypten.nn.onnx_converter"] = (
        types.SimpleNamespace(  # onnx is not installed, and not used here
            from_onnx=None, from_pytorch=None, from_tensorflow=None, TF_AND_TF2ONNX=False
        )
    )
    warnings.simplefilter("ignore")
    answers, sys.stdout = sys.stdout, sys.stderr
    os.environ.update(
        RANK=rank,
        WORLD_SIZE="2",
        RENDEZVOUS=meet,
        DISTRIBUTED_BACKEND="gloo",
        GLOO_SOCKET_IFNAME="lo",
    )
    import crypten

    torch.set_num_threads(1)
    crypten.init()
    provider = crypten.mpc.get_default_provider()
    net = network()
    X, y = data()
    X, y = crypten.cryptensor(X.float()), crypten.cryptensor(y[:, None].float())

    def secret(value):
        return None if value is None else crypten.cryptensor(value.float(), requires_grad=True)

    layers = [[secret(theta), secret(bias)] for theta, bias in net.layers()]

    def forward():
        h = X
        for i, (theta, bias) in enumerate(layers):
            h = h.matmul(theta) if bias is None else h.matmul(theta) + bias
            h = (h + 0.5).hardtanh(0, 1) if i < len(layers) - 1 else h
        return h

    def step() -> None:
        z = forward()
        with crypten.no_grad():
            error = ((z + 0.5).hardtanh(0, 1) - y) * (1 / BATCH)
        z.backward(error)
        with crypten.no_grad():
            for layer in layers:
                for i, value in enumerate(layer):
                    if value is not None:
                        layer[i] = value - value.grad * LR
                        layer[i].requires_grad = True

    for word in sys.stdin:
        provider.tuple_cache, provider.request_cache = {}, []
        if word.startswith("train"):
            for _ in range(int(word.split()[1])):
                step()
            with crypten.no_grad():
                logits = forward().get_plain_text().double()
            answer = float(net.loss(logits, data()[1]))
        else:
            if word.strip() == "given":
                provider.trace(True)
                step()
                provider.trace(False)
                provider.fill_cache()
            crypten.communicator.get().barrier()
            answer = _seconds(step)
        print(answer, file=answers, flush=True)


if __name__ == "__main__":
    _party(*sys.argv[1:])
