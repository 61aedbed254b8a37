"""The first layer under Paillier's encryption: Algorithm 3, packed, and element by element."""

from concurrent.futures import Executor
from itertools import pairwise

import torch

from .fixed_point import FRACTIONAL_BITS
from .in_process import Protocol
from .messages import SERVER, Malformed, Program, Receive, Send, bytes_from, said_of
from .paillier import Ciphertexts, Packing, add, decrypt, encrypt, first_layer_elementwise, phe_keys
from .paillier_keys import SECURE_BITS, PrivateKey, PublicKey, generate_keys
from .sides import Holder, Server, check_room

NAME = "Enc(X theta)"
VALUE_BITS = 40


class _EncryptedHolder(Holder):
    """Adds its own encrypted part to what the holder before it sent, and hands the sum on."""

    takes = "key_bits", "value_bits", "pool"

    def __init__(
        self,
        name,
        *,
        key_bits: int = SECURE_BITS,
        value_bits: int = VALUE_BITS,
        pool: Executor | None = None,
        **common,
    ):
        super().__init__(name, **common)
        self.packing, self._pool = Packing(value_bits=value_bits, n_terms=len(self.names)), pool
        self._key_bits = key_bits
        if self._stream is not None:
            self.streams = {"own": self._stream}

    def connect(self):
        came = yield Receive(SERVER, "public key")  # line 1
        self.public = key_from(SERVER, came, self._key_bits)
        self.packing.n_fields(self.public)  # refuses a key that is too small

    def part(self, rows, theta: torch.Tensor) -> torch.Tensor:
        """round(2^16 X_i theta_i) on the batch, halves to even, int64; refused where a field of a
        plaintext has no room."""
        self.take(rows)
        part = self.product(theta * 2.0**FRACTIONAL_BITS).round_()
        check_room(self.name, part, self.packing.value_bits, n_terms=1)
        return part.long()

    def begin(self, rows, theta):
        return self._hand_on(self.part(rows, theta))

    def _hand_on(self, z: torch.Tensor) -> Program:
        me = self.names.index(self.name)
        sums = encrypt(
            self.public, z, packing=self.packing, stream=self._stream, pool=self._pool
        )  # line 2
        if me:  # line 3
            came = _ciphertexts(
                self.names[me - 1],
                (yield Receive(self.names[me - 1], NAME)),
                self.public,
                tuple(z.shape),
                self.packing,
                me,
            )
            sums = add(self.public, came, sums)
        yield Send([*self.names, SERVER][me + 1], NAME, sums.payload)


class _EncryptedServer(Server):
    """Has the key.  private: to be kept, by who wants to make the same side again (keys=)."""

    takes = "key_bits", "teaching", "keys", "value_bits", "pool"

    def __init__(
        self,
        name,
        *,
        key_bits: int = SECURE_BITS,
        teaching: bool = False,
        keys: PrivateKey | None = None,
        value_bits: int = VALUE_BITS,
        pool: Executor | None = None,
        **common,
    ):
        super().__init__(name, **common)
        self.packing, self._pool = Packing(value_bits=value_bits, n_terms=len(self.names)), pool
        self.private = generate_keys(key_bits, teaching=teaching)[1] if keys is None else keys
        self.packing.n_fields(self.private.public)  # refuses a key that is too small

    def connect(self):
        for holder in self.names:  # line 1
            yield Send(holder, "public key", key_out(self.private.public))

    def step(self, n):
        payload, k = (yield Receive(self.names[-1], NAME)), len(self.names)
        sums = _ciphertexts(
            self.names[-1], payload, self.private.public, (n, self.width), self.packing, k
        )
        return self.decoded(decrypt(self.private, sums, pool=self._pool))  # line 4


class Encrypted(Protocol):
    """Algorithm 3: every holder encrypts round(2^16 X_i theta_i) and adds it to what came; the last
    one sends the sum.

    key_bits: length of the server's key, >= 2,048; below only with teaching=True. Holders refuse
    any other.  keys: a PrivateKey to use instead of making one; key_bits is then its length.
    value_bits: bits a number has in a ciphertext, head-room for k additions comes on top;
    |X_i theta_i| < 2^(value_bits - 17).  pool: a ProcessPoolExecutor for several processes.
    elementwise: as printed, one number per ciphertext, by phe: 19 ms a number, for small batches;
    the oracle. Its ciphertexts are counted, not kept.
    Guarantee: semi-honest, no collusion; under Paillier's assumption (see `paillier_keys`) a holder
    learns nothing, the server h1. The way from holder to holder must be closed to the server, who
    has the key.
    ValueError if the key is too small for the packing, or out of range.
    Source: zhou2021, Algorithm 3.  Departs from it: many numbers per ciphertext, at a fixed
    exponent.
    """

    name = "he"
    sees = (
        "server: h1 only, but the key: it must not see what holders send each other; holders: "
        "ciphertexts, no key"
    )
    compute = (
        "k float products, k encryptions and k - 1 additions of every ciphertext, 1 decryption"
    )
    sides = _EncryptedHolder, _EncryptedServer, None

    @classmethod
    def messages(cls, names, truncation=None):
        return [(SERVER, name, "public key") for name in names] + [
            (*link, NAME) for link in pairwise([*names, SERVER])
        ]

    @classmethod
    def side(cls, role, *, keys: PrivateKey | None = None, **choices):
        given = {} if keys is None else {"keys": keys, "key_bits": keys.public.bits}
        return super().side(role, **given | choices)

    def __init__(self, holders, *, elementwise: bool = False, **common):
        super().__init__(holders, **common)
        self._elementwise = elementwise

    def _compute(self, rows, thetas):
        if not self._elementwise:
            return super()._compute(rows, thetas)
        products, names = (
            [holder.part(rows, theta) for holder, theta in zip(self.holders, thetas)],
            self.server.names,
        )
        for sender, receiver in zip(names, [*names[1:], SERVER]):
            n_bytes = products[0].numel() * self.server.private.public.ciphertext_bytes
            self.transcript.send(sender, receiver, NAME, b"", n_bytes=n_bytes)
            self.transcript.next_round()
        return self.server.decoded(
            first_layer_elementwise(*phe_keys(self.server.private), products)
        )


def _ciphertexts(
    sender: str,
    payload: object,
    public: PublicKey,
    shape: tuple[int, ...],
    packing: Packing,
    n_terms: int,
):
    """What came, if it is as many bytes as that many numbers take.  Malformed if not."""
    n_bytes = -(-torch.Size(shape).numel() // packing.n_fields(public)) * public.ciphertext_bytes
    payload = bytes_from(sender, NAME, payload, n_bytes)
    return Ciphertexts(payload, public, shape, packing, n_terms)


def key_out(public: PublicKey) -> bytes:
    """n, big-endian: all the rest a holder computes from it."""
    return public.n.to_bytes(public.bits // 8, "big")


def key_from(sender: str, payload: object, bits: int) -> PublicKey:
    """The public key that came, if it can be one of this length.  Malformed if not."""
    why = f", a key of {bits:,} bits"
    n = bytes_from(sender, "public key", payload, bits // 8, why)
    public = PublicKey(int.from_bytes(n, "big"))
    try:
        public.check(bits)
    except ValueError as error:
        raise Malformed(f"{said_of(sender, 'public key')}: {error}", sender) from None
    return public
