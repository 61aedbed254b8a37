#!/usr/bin/env bash
# Guess: gmpy2.mpz is an integer without limits, so mpz times numpy.int64 is an mpz, and an array of mpz has dtype object.
# Seen: gmpy2 2.3.2 with numpy 2.4.6 gives numpy.int64 as long as the mpz fits 64 bits: mpz(2**40) * int64(2**40) is 0, and an array
#   of such mpz has dtype int64, where nothing warns at all. From 2**64 on the same lines give exact integers. flint.fmpz
#   (python-flint 0.9.0) is exact throughout.
# Why it matters: Paillier and secret sharing compute with mpz and take their fixed-point data from numpy. Tests with keys of real
#   size pass, and the small plaintexts wrap modulo 2**64. Convert with int() first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q gmpy2==2.3.2 numpy==2.4.6 python-flint==0.9.0
"$folder/venv/bin/python" -W ignore - <<'PY'
import flint
import gmpy2
import numpy as np

print("gmpy2", gmpy2.version(), " numpy", np.__version__, " python-flint", flint.__version__)
small, large, factor = gmpy2.mpz(2**40), gmpy2.mpz(2**100), np.int64(2**40)
for name, product in (("mpz * int64", small * factor), ("int64 * mpz", factor * small), ("large mpz * int64", large * factor)):
    print(f"{name}: {product} ({type(product).__name__})")
assert isinstance(small * factor, np.int64)
assert small * factor == 0
assert large * factor == 2**140
array = np.array([small, small])
print("array of mpz:", array.dtype, " its product with 2**40:", array * np.array([2**40, 2**40]))
assert array.dtype == np.int64
assert (array * np.array([2**40, 2**40]) == 0).all()
assert np.array([small, large]).dtype == object
assert int(factor) * small == 2**80
print("fmpz * int64:", flint.fmpz(2**40) * factor, " int64 * fmpz:", factor * flint.fmpz(2**40))
assert flint.fmpz(2**40) * factor == factor * flint.fmpz(2**40) == 2**80
PY
