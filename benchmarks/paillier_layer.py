"""Bars of `ppkit.spnn.paillier`: Algorithm 3's first layer for 5,000 x 8 values, two holders,
against phe element by element.

Both sides: both holders' encryptions, the addition and the decryption, 2,048 bits, gmpy2 under
both. Ours is run in full; phe is timed on SAMPLE elements spread over the layer and scaled up.
Keys, the table of powers (once per key: a twentieth of a layer) and the start of the worker
processes (once per run) are not in the times.
"""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor

import torch
from bars import REPEATS, Bar, bar, on_one_thread

from ppkit.spnn import paillier

N_RECORDS, WIDTH, SAMPLE = 5_000, 8, 32


@on_one_thread
def run() -> list[Bar]:
    """Time the bars; phe and ours are compared to the last bit on every sample, ours with the plain
    sum on all of the layer."""
    public, private = paillier.generate_keys()
    rng = torch.Generator().manual_seed(0)
    products = [
        torch.randint(-(2**20), 2**20, (N_RECORDS, WIDTH), generator=rng) for _ in range(2)
    ]  # |x theta| < 16
    samples = torch.randperm(N_RECORDS * WIDTH, generator=rng)[: REPEATS * SAMPLE].reshape(
        REPEATS, SAMPLE
    )
    phe_keys = paillier.phe_keys(private)
    _layer(public, private, [z[:50] for z in products])  # warm-up: makes the table
    against_phe = {40: [], 48: []}
    beside, one_process = [], {}
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        _layer(public, private, products, pool=pool)  # warm-up: starts both, makes their tables
        for sample in samples:
            chosen = [z.flatten()[sample] for z in products]
            by_phe, phe_seconds = _timed(paillier.first_layer_elementwise, *phe_keys, chosen)
            for value_bits, ratios in against_phe.items():
                h1, seconds = _timed(_layer, public, private, products, value_bits=value_bits)
                if not (
                    torch.equal(h1, sum(products)) and torch.equal(h1.flatten()[sample], by_phe)
                ):
                    raise AssertionError("packed Paillier, phe and the plain sum disagree")
                ratios.append(phe_seconds * len(h1.flatten()) / SAMPLE / seconds)
                one_process[value_bits] = seconds
            two_processes = _timed(_layer, public, private, products, pool=pool)[1]
            beside.append(one_process[40] / two_processes)
    what = (
        "phe 1.5.0 element by element, over the packed layer, 5,000 x 8 values, two holders, "
        "2,048 bits, one process"
    )
    return [
        bar(
            "paillier_vs_phe",
            f"{what}; 40 bits a value",
            against_phe[40],
            threads=1,
            at_least=200.0,
        ),
        bar(
            "paillier_vs_phe_48_bits",
            f"{what}; 48 bits a value",
            against_phe[48],
            threads=1,
            at_least=160.0,
        ),
        bar(
            "paillier_two_processes",
            "the packed layer in one process, over the same spread over two processes",
            beside,
            threads=2,
            at_least=1.5,
        ),
    ]


def _layer(public, private, products, *, value_bits=40, pool=None) -> torch.Tensor:
    packing = paillier.Packing(value_bits=value_bits, n_terms=2)
    a, b = (paillier.encrypt(public, z, packing=packing, pool=pool) for z in products)
    return paillier.decrypt(private, paillier.add(public, a, b), pool=pool)


def _timed(function, *args, **settings):
    start = time.perf_counter()
    result = function(*args, **settings)
    return result, time.perf_counter() - start
