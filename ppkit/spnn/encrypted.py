"""The first layer under Paillier's encryption: Algorithm 3, packed, and element by element."""

from __future__ import annotations

from concurrent.futures import Executor

from ppkit.spnn.holders import SERVER, Protocol
from ppkit.spnn.paillier import Packing, add, decrypt, encrypt, first_layer_elementwise, phe_keys
from ppkit.spnn.paillier_keys import SECURE_BITS, PrivateKey, generate_keys


class Encrypted(Protocol):
    """Algorithm 3: every holder encrypts round(2^16 X_i theta_i) and adds it to what came; the last one sends the sum.

    key_bits: length of the server's key, >= 2,048; below only with teaching=True.  keys: a PrivateKey to use instead of
    making one.  value_bits: bits a number has in a ciphertext, head-room for k additions comes on top; |X_i theta_i| <
    2^(value_bits - 17).  pool: `paillier.workers(2)` for two processes.
    elementwise: as printed, one number per ciphertext, by phe: 19 ms a number, for small batches; the oracle. Its
    ciphertexts are counted, not kept.
    Guarantee: semi-honest, no collusion; under Paillier's assumption (see `paillier_keys`) a holder learns nothing, the
    server h1. The way from holder to holder must be closed to the server, who has the key.
    ValueError if the key is too small for the packing, or out of range.
    Source: zhou2021, Algorithm 3.  Departs from it: many numbers per ciphertext, at a fixed exponent.
    """

    name = "he"
    sees = "server: h1 only, but the key: it must not see what holders send each other; holders: ciphertexts, no key"
    compute = "k float products, k encryptions and k - 1 additions of every ciphertext, 1 decryption"

    def __init__(self, holders, *, key_bits: int = SECURE_BITS, teaching: bool = False, keys: PrivateKey | None = None,
                 value_bits: int = 40, pool: Executor | None = None, elementwise: bool = False, **common):
        super().__init__(holders, **common)
        self.packing = Packing(value_bits=value_bits, n_terms=len(self.holders))
        self._private = generate_keys(key_bits, teaching=teaching)[1] if keys is None else keys
        self.public = self._private.public
        self.packing.n_fields(self.public)                                      # refuses a key that is too small
        self._pool, self._elementwise = pool, elementwise
        self._own = [None if self._stream is None else self.secrets_of(holder.name) for holder in self.holders]
        for holder in self.holders:                                             # line 1
            self.transcript.send(SERVER, holder.name, "public key", _bytes_of(self.public.n, self.public.h_n))

    def _forward(self, rows, thetas):
        products = [self.rounded_product(holder, theta, self.packing.value_bits, n_terms=1).long()
                    for holder, theta in zip(self.holders, thetas)]
        if self._elementwise:
            return self._by_element(products)
        names, sums = [*(holder.name for holder in self.holders), SERVER], None
        for i, (own, z) in enumerate(zip(self._own, products)):                 # lines 2 and 3
            cipher = encrypt(self.public, z, packing=self.packing, stream=own, pool=self._pool)
            sums = cipher if sums is None else add(self.public, sums, cipher)
            self.transcript.send(names[i], names[i + 1], "Enc(X theta)", sums.payload)
            self.transcript.next_round()
        return self.decoded(decrypt(self._private, sums, pool=self._pool))            # line 4

    def _by_element(self, products):
        names = [*(holder.name for holder in self.holders), SERVER]
        for sender, receiver in zip(names, names[1:]):
            n_bytes = products[0].numel() * self.public.ciphertext_bytes
            self.transcript.send(sender, receiver, "Enc(X theta)", b"", n_bytes=n_bytes)
            self.transcript.next_round()
        return self.decoded(first_layer_elementwise(*phe_keys(self._private), products))


def _bytes_of(*numbers: int) -> bytes:
    return b"".join(number.to_bytes((number.bit_length() + 7) // 8, "big") for number in numbers)
