"""h1 by every protocol: equal to the plain one within its derived bound; which messages there are;
bad input."""

from collections import defaultdict

import pytest
import torch
from spnn_parties import (
    BATCHES,
    CASES,
    COLUMNS,
    HE,
    HOLDERS,
    NAMES,
    VARIANTS,
    WIDTH,
    data,
    made,
    recorded,
)

from ppkit.models import classification_loss
from ppkit.spnn.layer import SPNN
from ppkit.spnn.messages import Transcript
from ppkit.spnn.party import Setup
from ppkit.spnn.protocols import names_received, party_of, simulator_of

BOUNDED = [(variant, k) for variant in VARIANTS for k in HOLDERS] + [("dealerless", 2)]
ROOM = {"he": 2.0**23, "masked": 2.0**14, "lean": 2.0**14, "published": 2.0**14}
ROOM |= {"dealerless": 2.0**14}


@pytest.mark.parametrize(("variant", "k"), BOUNDED)
def test_every_protocol_agrees_with_the_plain_product_within_its_bound(variant, k):
    protocol, parts, thetas = made(variant, k, scale=3.0)
    for rows in (slice(None), slice(2, 9), torch.tensor([5, 0, 5]), [7]):
        protocol.transcript.next_step()
        h1, bound = protocol.forward(rows, thetas), protocol.error_bound(rows, thetas)
        plain = sum(part[rows] @ theta for part, theta in zip(parts, thetas))
        assert h1.dtype == torch.float64 and h1.shape == plain.shape == bound.shape
        assert bool(((h1 - plain).abs() <= bound + 1e-12).all())
        assert bound.max() < 2**-10


@pytest.mark.parametrize(("variant", "k"), [case for case in BOUNDED if case[0] != "plain"])
def test_the_bound_is_not_idle(variant, k):
    """Some entry comes close to it: at least a tenth for products of so few terms."""
    protocol, parts, thetas = made(variant, k, n=40 if variant == "he" else 300)
    protocol.transcript.next_step()
    plain = sum(part @ theta for part, theta in zip(parts, thetas))
    ratio = (protocol.forward(slice(None), thetas) - plain).abs() / protocol.error_bound(
        slice(None), thetas
    )
    assert ratio.max() > 0.1


@pytest.mark.parametrize("variant", ROOM)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_part_without_room_is_refused_with_its_holder_its_size_and_the_range(variant, dtype):
    protocol, parts, thetas = made(variant, dtype=dtype)
    reach = ROOM[variant]
    protocol.prepare([parts[0], torch.tensor([[1.0, 0.0]] * len(parts[0]))])
    large = [thetas[0], torch.full((2, WIDTH), -1.01 * reach, dtype=dtype)]
    with pytest.raises(
        ValueError,
        match=r"holder B reaches [\d.e+]+, outside the range \+-[\d.e+]+ .* for each of [12]: "
        "standardise its features, or lower the learning rate",
    ):
        protocol.forward(slice(None), large)
    fits = [theta * 0.9 / 1.01 for theta in large[1:]]
    protocol.transcript.next_step()
    h1 = protocol.forward(slice(None), [torch.zeros_like(thetas[0]), *fits])
    assert torch.allclose(h1, fits[0][:1].expand(len(parts[0]), -1), rtol=1e-6)


@pytest.mark.parametrize("variant", ["lean", "masked"])
def test_words_hold_what_they_say_up_to_the_edge(variant):
    """h1 = +-(2^15 - 1): sums that wrap inside, and the sign of the last word."""
    protocol, _, _ = made(variant, width=1)
    protocol.prepare(
        [torch.tensor([[4.0, 0, 0], [-4.0, 0, 0]]), torch.tensor([[2.0, 0], [-2.0, 0]])]
    )
    thetas = [
        torch.full((3, 1), 4095.0, dtype=torch.float64),
        torch.full((2, 1), 8191.0, dtype=torch.float64),
    ]
    assert protocol.forward(slice(None), thetas).flatten().tolist() == [32762.0, -32762.0]


@pytest.mark.parametrize("label_holder", [None, "A", "B"])
@pytest.mark.parametrize(("variant", "k"), CASES)
def test_the_table_of_names_is_what_a_training_sends_and_no_more(variant, k, label_holder):
    if label_holder is None:
        messages = recorded(variant, k)[0]
    else:
        net = SPNN(
            COLUMNS[k],
            (WIDTH, 2),
            rng=torch.Generator().manual_seed(0),
            transcript=Transcript(keep="sizes"),
            label_holder=NAMES[k].index(label_holder),
            **VARIANTS[variant],
            **(HE if variant == "he" else {}),
        )
        net.prepare(data(k)[0])
        classification_loss(net(BATCHES[0]), torch.ones(7)).backward()
        messages = net.transcript.messages
    found = defaultdict(lambda: defaultdict(set))
    for m in messages:
        found[m.receiver][m.sender].add(m.name)
    for role in ["dealer", "server", *NAMES[k]]:
        table = names_received(role, names=NAMES[k], label_holder=label_holder, **VARIANTS[variant])
        assert table == found[role], role


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"protocol": "mpc"}, "protocol must be one of plain, ss, he, masked, got 'mpc'"),
        (
            {"protocol": "plain", "form": "lean"},
            "form is a choice of protocol 'ss', got form='lean'",
        ),
        (
            {"protocol": "ss", "form": "short"},
            "form must be one of published, lean, dealerless, got 'short'",
        ),
    ],
)
def test_a_protocol_that_is_not_there_is_refused(choice, message):
    setup = Setup(["A", "B"], [3, 2], 4)
    for ask in (
        lambda: simulator_of(setup, transcript=Transcript(), **choice),
        lambda: party_of("A", setup, **choice),
        lambda: names_received("A", names=["A", "B"], **choice),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


@pytest.mark.parametrize(("role", "protocol"), [("D", "ss"), ("dealer", "masked")])
def test_a_role_that_is_not_there_is_refused(role, protocol):
    with pytest.raises(ValueError, match=f"protocol '{protocol}' has no role '{role}'"):
        party_of(role, Setup(["A", "B"], [3, 2], 4), protocol=protocol)
