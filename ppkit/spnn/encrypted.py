"""The first layer under Paillier's encryption: Algorithm 3, packed."""

from itertools import pairwise

import torch

from ppkit.spnn.fixed_point import FRACTIONAL_BITS
from ppkit.spnn.messages import SERVER, Malformed, Receive, Send, bytes_from, said_of
from ppkit.spnn.paillier import Ciphertexts, Packing, add, decrypt, encrypt
from ppkit.spnn.paillier_keys import PublicKey
from ppkit.spnn.party import Holder, Server, check_room
from ppkit.spnn.simulator import Simulator

NAME = "Enc(X theta)"


class _EncryptedHolder(Holder):
    """Adds its own encrypted part to what the holder before it sent, and hands the sum on."""

    def __init__(self, name, setup):
        super().__init__(name, setup)
        self.packing, self._key_bits = Packing(n_terms=len(self.names)), setup.key_bits
        self.streams = {"own": self.stream}

    def connect(self):
        came = yield Receive(SERVER, "public key")  # line 1
        self.public = key_from(SERVER, came, self._key_bits)
        self.packing.n_fields(self.public)  # refuses a key that is too small

    def begin(self, rows, theta):
        """round(2^16 X_i theta_i), halves to even; refused where a field of a plaintext has no
        room."""
        part = self.product(theta * 2.0**FRACTIONAL_BITS).round_()
        check_room(self.name, part, self.packing.value_bits, n_terms=1)
        return self._hand_on(part.long())

    def _hand_on(self, z):
        sums = encrypt(self.public, z, packing=self.packing, stream=self.stream)  # line 2
        if self.me:  # line 3
            before = self.names[self.me - 1]
            came = yield Receive(before, NAME)
            came = _ciphertexts(before, came, self.public, tuple(z.shape), self.packing, self.me)
            sums = add(self.public, came, sums)
        yield Send([*self.names, SERVER][self.me + 1], NAME, sums.payload)


class _EncryptedServer(Server):
    """Has the key.  private: to be kept, by who wants to make the same party again (keys=)."""

    def __init__(self, name, setup):
        super().__init__(name, setup)
        self.packing, self.private = Packing(n_terms=len(self.names)), setup.own_keys()
        self.packing.n_fields(self.private.public)  # refuses a key that is too small

    def connect(self):
        for holder in self.names:  # line 1
            yield Send(holder, "public key", key_out(self.private.public))

    def step(self, n):
        last, public, shape = self.names[-1], self.private.public, (n, self.width)
        came = yield Receive(last, NAME)
        sums = _ciphertexts(last, came, public, shape, self.packing, len(self.names))
        return self.decoded(decrypt(self.private, sums))  # line 4


class Encrypted(Simulator):
    """Algorithm 3: every holder encrypts round(2^16 X_i theta_i) and adds it to what came; the last
    one sends the sum.

    A number has 40 bits in a ciphertext, head-room for k additions comes on top:
    |X_i theta_i| < 2^23.  Holders refuse a key of another length than was agreed.
    Guarantee: semi-honest, no collusion; under Paillier's assumption (see `paillier_keys`) a holder
    learns nothing, the server h1. The way from holder to holder must be closed to the server, who
    has the key.
    ValueError if the key is too small for the packing, or out of range.
    Source: zhou2021, Algorithm 3.  Departs from it: many numbers per ciphertext, at a fixed
    exponent; `paillier.first_layer_elementwise` has it as printed.
    """

    name = "he"
    sees = (
        "server: h1 only, but the key: it must not see what holders send each other; holders: "
        "ciphertexts, no key"
    )
    compute = (
        "k float products, k encryptions and k - 1 additions of every ciphertext, 1 decryption"
    )
    holder_class, server_class = _EncryptedHolder, _EncryptedServer

    @classmethod
    def messages(cls, names):
        return [(SERVER, name, "public key") for name in names] + [
            (*link, NAME) for link in pairwise([*names, SERVER])
        ]


def _ciphertexts(
    sender: str,
    payload: object,
    public: PublicKey,
    shape: tuple[int, ...],
    packing: Packing,
    n_terms: int,
) -> Ciphertexts:
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
