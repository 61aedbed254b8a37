"""The token bucket, a link that it shapes, and two roles over TLS on loopback: exactly, with clocks
of our own.
"""

from fractions import Fraction
from threading import Thread

import numpy as np
import pytest
from network_pair import Pair, Wire, loopback, opened
from waiting import FAR, Hand, until

from spnn_system.transport import certificates
from spnn_system.transport.frames import PIECE_BYTES, Frame, pack
from spnn_system.transport.shaping import TokenBucket, paced, piece_bytes

KBPS, MBPS, GBPS = 1e3, 1e6, 1e9


def leaving_times(messages, bits_per_second):
    """The slow way, in exact fractions: each message after the one before, at its rate."""
    rate, free_at, times = Fraction(bits_per_second) / 8, Fraction(0), []
    for at, n_bytes in messages:
        free_at = max(Fraction(at), free_at) + n_bytes / rate
        times.append(free_at)
    return times


@pytest.mark.parametrize("rate", [100e3, 10e6, 1e9])
def test_bytes_leave_as_in_the_slow_exact_way(rate):
    rng, at, messages = np.random.default_rng(0), 5.0, []
    for _ in range(300):
        at += float(rng.exponential(8_000 / rate * 8) * rng.integers(0, 2))
        messages.append((at, int(rng.integers(0, 16_000))))
    bucket = TokenBucket(rate)
    found = [bucket.take(n_bytes, at) for at, n_bytes in messages]
    assert found == pytest.approx(
        [float(when) for when in leaving_times(messages, rate)], rel=0, abs=1e-9
    )


def test_a_wire_takes_eight_bits_a_byte_one_message_after_the_other():
    wire = TokenBucket(100 * MBPS)
    assert wire.take(160_000, 0.0) == pytest.approx(0.0128) and wire.take(
        160_000, 0.001
    ) == pytest.approx(0.0256)
    assert wire.take(160_000, 1.0) == pytest.approx(1.0128), "a pause is not made up for"
    assert TokenBucket(0).take(10**12, 3.0) == 3.0


def test_in_no_span_does_more_than_the_rates_share_leave():
    rng, rate = np.random.default_rng(1), 1 * MBPS
    bucket = TokenBucket(rate)
    at = np.cumsum(rng.exponential(0.01, 200))
    left = np.array([[bucket.take(1_000, t), 1_000] for t in at])
    total = np.cumsum(left[:, 1])
    # from just after message i to message j
    spans = left[None, :, 0] - left[:, None, 0]
    sent = total[None, :] - total[:, None]
    later = np.triu(np.ones_like(spans, bool), 1)
    assert (sent[later] <= rate / 8 * spans[later] + 1e-6).all()
    assert (sent[later] > 0.9 * rate / 8 * spans[later]).any(), "and at times that much does leave"


class Imagined:
    """A clock that jumps to where it is told to wait; the machine's own work takes `slow` seconds
    between two waits.
    """

    def __init__(self, slow=0.0, ends_at=float("inf")):
        self.time, self.slow, self.ends_at = 0.0, slow, ends_at

    def now(self):
        return self.time

    def wait_until(self, when):
        self.time = max(self.time + self.slow, when)
        return self.time >= self.ends_at


@pytest.mark.parametrize("rate", [100 * KBPS, 10 * MBPS, 100 * MBPS, GBPS])
def test_every_piece_leaves_when_its_last_byte_has_passed(rate):
    parts, clock, bucket = [bytes(1_000)] * 4 + [b"x"], Imagined(), TokenBucket(rate)
    times = [clock.now() for _ in paced(parts, bucket, 0.0, clock)]
    byte = 8 / rate
    assert times == pytest.approx(
        [1_000 * byte, 2_000 * byte, 3_000 * byte, 4_000 * byte, 4_001 * byte], rel=1e-12
    )
    assert [clock.now() for _ in paced(parts[:1], bucket, 2_000 * byte, clock)] == pytest.approx(
        [5_001 * byte], rel=1e-12
    )


def test_a_slow_machine_is_late_itself_and_does_not_slow_the_link():
    # each piece takes 10 ms of the link, the machine 30
    clock = Imagined(slow=0.03)
    times = [clock.now() for _ in paced([bytes(1_000)] * 5, TokenBucket(0.8 * MBPS), 0.0, clock)]
    assert times == pytest.approx([0.03, 0.06, 0.09, 0.12, 0.15])
    clock.slow = 0.0
    times = [clock.now() for _ in paced([bytes(1_000)] * 20, TokenBucket(0.8 * MBPS), 0.0, clock)]
    assert times == pytest.approx([0.15] * 15 + [0.16, 0.17, 0.18, 0.19, 0.20])


def test_pacing_ends_when_the_waiting_is_ended():
    assert (
        len(list(paced([bytes(1_000)] * 9, TokenBucket(0.8 * MBPS), 0.0, Imagined(ends_at=0.035))))
        == 3
    )


def test_pieces_are_short_on_slow_links_and_never_above_a_megabyte():
    assert [piece_bytes(rate) for rate in (0, 1.0, 100 * KBPS, 10 * MBPS, GBPS, 100 * GBPS)] == [
        PIECE_BYTES,
        4096,
        4096,
        6_250,
        625_000,
        PIECE_BYTES,
    ]


def waiting_at(end, sender):
    """When each message that came from this sender may be read."""
    return [when for when, _ in end._inbox.senders[sender].waiting]


def test_both_directions_of_a_link_are_full_at_once_and_latency_comes_once_after_the_last_byte(
    tmp_path,
):
    """Nothing comes before its time, or a message would wait with an earlier one: the clock stands
    in between.
    """
    clock, lines = Hand(), []
    with Pair(tmp_path, bandwidth=10 * MBPS, latency=0.3, clock=clock, log=lines.append) as pair:
        ends = [(pair.A, pair.server), (pair.server, pair.A)]
        for step, size in enumerate((250_000, 125_000)):
            for one, other in ends:
                one.send(other.me, "m", bytes(size), step=step)
        due = (
            np.cumsum(
                [
                    len(pack(Frame("r", "server", "A", step, step, "online", "m", bytes(size))))
                    for step, size in enumerate((250_000, 125_000))
                ]
            )
            * 8
            / (10 * MBPS)
        )
        for n, when in enumerate(due, 1):
            # the sums of all pieces are rounded otherwise than this one
            clock.move(when + 1e-9)
            for one, other in ends:
                until(lambda: len(waiting_at(other, one.me)) == n)
        came = [waiting_at(other, one.me) for one, other in ends]
        assert came[0] == pytest.approx(due + 0.3, abs=1e-8) and came[1] == pytest.approx(
            due + 0.3, abs=1e-8
        )
        got = []
        reading = [
            Thread(
                target=lambda one=one, other=other: got.extend(
                    len(other.receive(one.me, "m", step=step)) for step in range(2)
                )
            )
            for one, other in ends
        ]
        [thread.start() for thread in reading]
        # an acknowledgement that comes late wakes a reader, which then waits again
        until(lambda: len(set(map(id, clock._changes))) == 2)
        assert not got and set(clock.waits) == {came[0][0], came[1][0]}, (
            "each waits for its first one's latency"
        )
        # of both, as they came behind one another
        clock.move(due[-1] + 0.3 + 1e-8)
        [thread.join(FAR) for thread in reading]
        assert sorted(got) == [125_000] * 2 + [250_000] * 2
        pair.A.flush(), pair.server.flush()


def test_what_tls_and_http_add_to_the_bytes_that_the_bucket_counts_is_below_2_percent(tmp_path):
    """The bucket counts frames; beside them a link carries heads of HTTP/2 and TLS, handshakes and
    pings.
    """
    lines, addresses = [], loopback("A", "server")
    certificates.make(tmp_path, list(addresses))
    wire = Wire(addresses["server"])
    settings = {"run": "r", "certificates": tmp_path, "timeout": FAR}
    with (
        opened("server", addresses, **settings) as server,
        opened("A", addresses | {"server": wire.address}, log=lines.append, **settings) as a,
    ):
        for step in range(10):
            a.send("server", "m", bytes(400_000), step=step)
            server.receive("A", "m", step=step)
        a.flush()
        counted = sum(line["wire_bytes"] for line in lines)
        assert len(lines) == 10 and 4_000_000 < counted < wire.carried < 1.02 * counted
    wire.close()
