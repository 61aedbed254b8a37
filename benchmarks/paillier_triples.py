"""Bars of `ppkit.spnn.dealerless`: triples of 2,000 x 28 times 28 x 8 (the paper's fraud network: 8
of 11 fields of a plaintext are used) and times 28 x 22 (all are), made by two holders, against phe
with one number a ciphertext.

Both sides' work is counted, 2,048 bits, gmpy2 under both. Ours is run in full; phe makes the same
exchange for SAMPLE numbers of the product and for as many of the second factor, before ours and
after it, scaled up. Keys and the table of powers (once per key) are not in the times.
"""

from __future__ import annotations

import secrets
import time

import torch
from bars import Bar, bar, on_one_core, on_one_thread

from ppkit.spnn import dealerless, paillier, ring
from ppkit.spnn.randomness import Stream

N_ROWS, D, SAMPLE = 2_000, 28, 3
AT_LEAST = {8: 30.0, 22: 50.0}  # by width


@on_one_core()
@on_one_thread
def run() -> list[Bar]:
    """Time the bars; both give shares of the same product, which is checked every time."""
    public, private = paillier.generate_keys()
    stream, mask_bytes = Stream(), dealerless.Fields(D, 1, public.bits).mask_bytes
    phe_public, phe_private = paillier.phe_keys(private)

    def packed(U: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
        fields = dealerless.Fields(D, V.shape[1], public.bits)
        offered = dealerless.offer(public, V, fields, stream=stream)
        answered, first = dealerless.answer(public, offered, U, fields, stream=stream)
        return first + dealerless.opened(private, answered, fields)

    def by_phe(rows: list[list[int]], columns: list[list[int]]) -> tuple[list[int], float, float]:
        """Numbers of the product; seconds for one number of V, and for one of the product."""
        start = time.perf_counter()
        encrypted = [[phe_public.encrypt(v) for v in column] for column in columns]
        offered, products = time.perf_counter(), []
        for row, column in zip(rows, encrypted, strict=True):
            R = secrets.randbits(8 * mask_bytes)
            total = phe_public.encrypt(R)
            for u, v in zip(row, column, strict=True):
                total += v * u
            products.append((phe_private.decrypt(total) - R) % 2**64)
        end = time.perf_counter()
        return products, (offered - start) / len(columns) / D, (end - offered) / len(products)

    def ratio(width: int) -> float:
        U, V = stream.words((N_ROWS, D)), stream.words((D, width))
        U_phe, V_phe = ([[x % 2**64 for x in row] for row in part.tolist()] for part in (U, V.T))
        by_phe_before = by_phe(U_phe[:SAMPLE], V_phe[:SAMPLE])
        start = time.perf_counter()
        product = packed(U, V)
        seconds = time.perf_counter() - start
        by_phe_after = by_phe(U_phe[:SAMPLE], V_phe[:SAMPLE])
        if not torch.equal(product, ring.matmul(U, V)):
            raise AssertionError("the shares of the triple do not add up to the product")
        ours = [product[i, i].item() % 2**64 for i in range(SAMPLE)]
        by_number = 0.0
        for numbers, of_V, of_product in (by_phe_before, by_phe_after):
            if numbers != ours:
                raise AssertionError("phe and the packed triple disagree")
            by_number += width * (of_V * D + of_product * N_ROWS) / 2
        return by_number / seconds

    packed(stream.words((2, D)), stream.words((D, 2)))  # warm-up: makes the table
    return [
        bar(
            f"triple_vs_phe_{width}",
            "a triple by Paillier with one number a ciphertext (phe 1.5.0), over the same packed, "
            f"{N_ROWS} x {D} times {D} x {width}, both sides, 2,048 bits, one process",
            [ratio(width) for _ in range(3)],
            threads=1,
            at_least=at_least,
        )
        for width, at_least in AT_LEAST.items()
    ]
