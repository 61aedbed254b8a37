"""What may keep a property out of h1: noise with its epsilon, an adversary in training, one
direction taken out of theta.

The fourth is a smaller width of h1 and needs no code. All of them see arrays; a comment in each
says who would have to do it among zhou2021's parties, where nobody but the server sees h1.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from ppkit import accounting, mechanisms, optimisers
from ppkit.attacks.arrays import bits_of
from ppkit.models import classification_loss, mlp
from ppkit.validation import binary, must_be, same_rows


class NoisyHidden(nn.Module):
    """Rows of h1 clipped, and Gaussian noise on every entry, each time anew,
    before the server has h1.

    h min(1, C / ||h||) + N(0, (noise_multiplier C)^2 I)

    clip_bound: C > 0, in the unit of h1; public.
    noise_multiplier: noise over C, >= 0; 0 gives no privacy.
    rng: torch.Generator; for teaching, real noise comes from the operating system.
    Put it where h1 is made, so that net.h1 and `training.Look.h1`, which are what the server gets,
    are noisy: in a subclass of `rivals.NN`,
        def first(self, parts): return self.noisy(super().first(parts)).
    In front of net.hidden it would be the server that adds the noise, to an h1 that it has clean.
    Gradients pass through the clipping; noise is added in training and in prediction alike, for the
    server sees h1 in both.
    ValueError for a setting out of range.
    Guarantee: `epsilon_of_releases`, n_releases the times that the record is fed forward.
    Departs from the paper, which has no such defence. Holders who each clip X_i theta_i at C / k
    and add noise of variance 1/k into their shares get the same without anyone seeing h1 (clipping
    the parts is the harder clipping).

    >>> NoisyHidden(clip_bound=1.0, noise_multiplier=0.0, rng=torch.Generator())(
    ...     torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    ... )
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """

    def __init__(self, *, clip_bound: float, noise_multiplier: float, rng: torch.Generator):
        super().__init__()
        must_be("a finite number > 0", clip_bound=clip_bound)
        must_be("a finite number >= 0", noise_multiplier=noise_multiplier)
        self.clip_bound = clip_bound
        self.noise_multiplier = noise_multiplier
        self._rng = rng

    def forward(self, h1: torch.Tensor) -> torch.Tensor:
        norms = torch.linalg.vector_norm(h1, dim=1, keepdim=True)
        clipped = h1 * (self.clip_bound / norms.clamp_min(self.clip_bound))
        noise = torch.empty_like(h1).normal_(generator=self._rng)
        return clipped + self.noise_multiplier * self.clip_bound * noise


def noisy_rows(
    X: ArrayLike, *, clip_bound: float, noise_multiplier: float, rng: np.random.Generator
) -> np.ndarray:
    """A holder's own features, every row clipped and noised once, to be used in place of X from
    then on.

    x min(1, C / ||x||) + N(0, (noise_multiplier C)^2 I)

    X: (N, F) finite.  clip_bound: C > 0, public.  noise_multiplier: >= 0.  Returns (N, F) float64.
    All that follows, every epoch, theta, its gradients and each prediction, is computed from the
    noised rows and costs nothing more: no composition over epochs, and theta's path is covered too,
    which noise on h1 leaves out.
    Guarantee: `epsilon_of_releases` with n_releases = 1 for one holder's part of a record, the
    number of holders for all of it; labels are not covered.  ValueError for a setting out of range.
    Source: not in the paper; local differential privacy of the inputs.

    >>> noisy_rows(
    ...     [[3.0, 4.0], [0.3, 0.4]],
    ...     clip_bound=1.0,
    ...     noise_multiplier=0.0,
    ...     rng=np.random.default_rng(0),
    ... )
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """
    must_be("a finite number > 0", clip_bound=clip_bound)
    X = np.asarray(X, np.float64)
    clipped = X * (clip_bound / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), clip_bound))
    return mechanisms.gaussian(clipped, scale=noise_multiplier * clip_bound, rng=rng)


def epsilon_of_releases(noise_multiplier: float, *, delta: float, n_releases: int) -> float:
    """What it costs one record that its own clipped row leaves n_releases times, each time under
    fresh Gaussian noise.

    The row can be any in the ball of radius C, so it moves by up to 2 C: the Gaussian mechanism at
    noise_multiplier / (2 sqrt(n_releases)).

    noise_multiplier: > 0.  delta: in (0, 1).  n_releases: >= 1; for h1 one an epoch, and one for
    each prediction.
    Returns epsilon > 0, exact.  ValueError for a setting out of range.
    Guarantee: local (epsilon, delta)-DP: replace-one, this record's features by any others, seen by
    who knows that the row is this record's. No other record hides it and no sampling amplifies. For
    h1 it takes theta's path as fixed: what a record does to theta, and so to all later rows of h1,
    is not in it (the holders' X^T G is without noise).
    Source: dp_accounting.get_epsilon_gaussian (Balle and Wang 2018), through
    `accounting.get_epsilon_epochs`.

    >>> [round(epsilon_of_releases(s, delta=1e-5, n_releases=60)) for s in (0.3, 1.0, 10.0)]
    [1553, 185, 7]
    >>> round(epsilon_of_releases(1.0, delta=1e-5, n_releases=1), 2)
    10.0
    """
    return accounting.get_epsilon_epochs(noise_multiplier, delta=delta, n_epochs=n_releases)


class Defender:
    """An attacker that trains along on h1, and whose gradient is turned round:
    h1 learns to tell him nothing.

    dL/dh1  becomes  dL/dh1 - strength dA/dh1,
        A = mean loss of a perceptron H-16-1 that guesses the property from h1

    width: H of h1, >= 1.  strength: >= 0, in units of a mean loss (for training on a summed loss
    multiply it by |B|).
    The perceptron takes three steps of Adam on every batch.
    rng: torch.Generator of its start.  h1 is float64.
    Use: defender.attach(net, bits), then train as always.
    ValueError for a setting out of range.  Guarantee: none: it answers the attacker it trained
    against, on one look at h1.
    Source: zhou2021, section 4.6 (Osia et al. 2019), named, not used;
    gradient reversal, Ganin and Lempitsky 2015.
    Departs from the paper: "each data holder trains a defender" on h1, which no holder sees; here
    it does see it. Among zhou2021's parties it would run on shares,
    or on each holder's X_i theta_i alone.
    """

    def __init__(self, width: int, *, strength: float, rng: torch.Generator):
        must_be("a finite number >= 0", strength=strength)
        self.strength = strength
        self._attacker = mlp((width, 16, 1), rng=rng, dtype=torch.float64)
        self._optimiser = optimisers.Adam(self._attacker.parameters(), lr=1e-2, fused=True)

    def attach(self, net: nn.Module, bits: torch.Tensor) -> None:
        """Guard h1 in every call net(rows) with gradients from now on.

        net: any module that is called with row numbers and gives h1 to its part net.hidden.  bits:
        (N,) of the rows that it was prepared with, in {0, 1}.
        """
        bits = torch.as_tensor(bits)
        called_with: list[torch.Tensor] = []

        def note_rows(module: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
            called_with[:] = args

        def guard_hidden(module: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
            if torch.is_grad_enabled():
                self.guard(args[0], bits[called_with[0]])

        net.register_forward_pre_hook(note_rows)
        net.get_submodule("hidden").register_forward_pre_hook(guard_hidden)

    def guard(self, h1: torch.Tensor, bits: torch.Tensor) -> None:
        """Train the attacker on this batch, then have h1's gradient changed as it flows back.

        h1: (n, H), part of the graph of the loss that will be differentiated.
        bits: (n,) in {0, 1}, of these records.  ValueError for others.
        """
        binary(bits=bits)
        seen = h1.detach()
        for _ in range(3):
            self._optimiser.zero_grad()
            self._loss(seen, bits).backward()
            self._optimiser.step()
        seen = seen.requires_grad_()
        turned = torch.autograd.grad(self._loss(seen, bits), seen)[0]
        h1.register_hook(lambda gradient: gradient - self.strength * turned)

    def _loss(self, h1: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
        spread = h1.std(dim=0, correction=0) + 1e-6
        return classification_loss(self._attacker((h1 - h1.mean(dim=0)) / spread), bits)


def property_direction(X: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
    """The direction of feature space along which the property has its covariance with X;
    (F,) of length 1.

    c = mean over records of (x - mean x) s, over its length;
        s the bits, which need no centring where x has it

    X: (N, F).  bits: (N,) in {0, 1}, both present.  ValueError for others.
    Among holders: each needs its own part of c, N products with the property's bits, by one
    multiplication on shares (or the property's owner reveals the sums); aggregates over all
    records, without noise.
    """
    X, bits = torch.as_tensor(X), torch.from_numpy(bits_of("bits", bits))
    same_rows(X=X, bits=bits)
    if bits.min() == bits.max():
        raise ValueError(f"bits must have both values, got {int(bits[0])} only")
    c = bits.to(X.dtype) @ (X - X.mean(dim=0)) / len(X)
    return c / c.norm()


@torch.no_grad()
def take_out(theta: Sequence[torch.Tensor], direction: torch.Tensor) -> None:
    """Remove one direction from the first layer's weights, in place: h1 = X theta then has
    covariance 0 with the property.

    theta <- theta - c (c^T theta)

    theta: one (F_i, H) tensor a holder, as in net.theta.
    direction: c, (F,) of length 1, F = sum F_i (`property_direction`).
    Use after every step: optimiser.register_step_post_hook(lambda *_: take_out(net.theta, c)),
    and once before the first.
    Guarantee: on the records that c came from, no linear classifier of h1 beats the constant one
    under any convex loss, also over the h1 of all epochs side by side (the means of both classes
    are equal; Belrose et al. 2023). None against others: the square of h1 may tell.
    Among holders: c^T theta is a sum of k vectors of H numbers, one a holder,
    which they tell each other.

    >>> theta = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> take_out([theta], torch.tensor([0.0, 1.0]))
    >>> theta
    tensor([[1., 2.],
            [0., 0.]])
    """
    sizes = [len(part) for part in theta]
    pieces = direction.split(sizes)
    along = sum(piece.to(part.dtype) @ part for piece, part in zip(pieces, theta))
    for piece, part in zip(pieces, theta):
        part -= torch.outer(piece.to(part.dtype), along)
