"""What a participant of Algorithm 1 sends.

DPSTGD    Algorithm 2: clip every coordinate, average, Report-Noisy-Top-N, send {-B, 0, +B}
PlainSGD  the non-private baseline: the mean gradient of the same Poisson sample
DPSGD     Gaussian noise on the clipped sum: what a participant would upload today
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import nn

from ppkit import gradients
from ppkit.dpstgd.formulas import dense_bits, upload_bits
from ppkit.mechanisms import SELECTIONS
from ppkit.models import n_parameters
from ppkit.validation import must_be, one_of


class Upload(Protocol):
    """What a participant sends, as a function of its model and its sample."""

    def __call__(
        self,
        model: nn.Sequential,
        X: torch.Tensor,
        y: torch.Tensor,
        *,
        expected_batch: float,
        rng: np.random.Generator,
    ) -> torch.Tensor:
        """A flat direction (P,) from a Poisson sample X (m, F), y (m,), m >= 0, of expected size
        expected_batch."""

    def bits(self, size: int) -> int:
        """Bits of one upload of a model of `size` parameters."""


@dataclass(frozen=True)
class DPSTGD:
    """Algorithm 2: n coordinates chosen under noise, each sent as B times a noisy sign.

    G = mean_i clip(g_i, -B, B),  lambda = 2 B / |D_q|,
    I, s = selection(G, n, scale = lambda / epsilon),  upload_j = B s_j for j in I, else 0

    epsilon: per selection, > 0; math.inf sends the true top n (no noise, no privacy).
    n_uploads: n >= 1, at most the number of parameters.  clip_bound: B > 0, finite.
    selection: a name in `mechanisms.SELECTIONS`.
    The realised |D_q| in lambda is private, yet harmless: noise of scale 2 B / (|D_q| epsilon) on
    the mean is noise of scale 2 B / epsilon on the sum, divided by |D_q|, and dividing by a
    positive number changes neither an order nor a sign. The upload is a function of
    (sum + noise) alone.
    An empty sample is answered the same way: its sum is 0, so noise alone chooses coordinates and
    signs. To stay silent instead would publish the event "nobody was sampled", whose probability
    (1-q)^N depends on N, and at q = 1 tells an empty data set from one record with certainty; no
    noise would cover it.
    Returns, when called, a flat tensor (P,) with values in {-B, 0, +B}.  ValueError if a setting is
    out of range, or the sample does not fit the model.
    Guarantee: `accounting.get_upload_budget`.  Source: wang2018, Algorithms 2 and 3.
    """

    epsilon: float
    n_uploads: int
    clip_bound: float
    selection: str = "gumbel"

    def __post_init__(self) -> None:
        must_be("> 0", epsilon=self.epsilon)
        must_be("a whole number >= 1", n_uploads=self.n_uploads)
        must_be("a finite number > 0", clip_bound=self.clip_bound)
        one_of(SELECTIONS, selection=self.selection)

    def __call__(
        self,
        model: nn.Sequential,
        X: torch.Tensor,
        y: torch.Tensor,
        *,
        expected_batch: float,
        rng: np.random.Generator,
    ) -> torch.Tensor:
        gradients.check_sample(model, X, y)
        mean = torch.zeros(n_parameters(model), dtype=X.dtype)
        if len(X):
            mean = gradients.mean_clipped(model, X, y, clip_bound=self.clip_bound)
        sensitivity = 2 * self.clip_bound / max(len(X), 1)
        select = SELECTIONS[self.selection]
        indices, signs = select(
            mean.numpy(), n=self.n_uploads, scale=sensitivity / self.epsilon, rng=rng
        )
        upload = torch.zeros_like(mean)
        upload.numpy()[indices] = self.clip_bound * signs
        return upload

    def bits(self, size: int) -> int:
        """Bits of one upload of a model of `size` parameters: n indices and n signs."""
        return upload_bits(self.n_uploads, size)


@dataclass(frozen=True)
class PlainSGD:
    """The non-private baseline: the mean gradient of the same Poisson sample, 0 if it is empty."""

    def __call__(
        self,
        model: nn.Sequential,
        X: torch.Tensor,
        y: torch.Tensor,
        *,
        expected_batch: float,
        rng: np.random.Generator,
    ) -> torch.Tensor:
        gradients.check_sample(model, X, y)
        return (
            gradients.mean_plain(model, X, y)
            if len(X)
            else torch.zeros(n_parameters(model), dtype=X.dtype)
        )

    def bits(self, size: int) -> int:
        """Bits of one upload of a model of `size` parameters: every coordinate as a float32."""
        return dense_bits(size)


@dataclass(frozen=True)
class DPSGD:
    """The upload of one DP-SGD round: the clipped sum plus Gaussian noise, over the expected batch.

    (sum_i g_i min(1, C / ||g_i||) + N(0, (noise_multiplier C)^2 I)) / (q N)

    noise_multiplier: noise over max_grad_norm, >= 0; 0 gives no privacy.  max_grad_norm: C > 0.
    Called with a model, a Poisson sample X (m, F), y (m,) that may be empty, the sample's expected
    size q N, finite, > 0, and a generator; returns a flat float tensor (P,).  ValueError if a
    setting is out of range, or the sample does not fit the model.
    Guarantee: `accounting.get_epsilon_poisson` (Poisson sampling, add/remove).  The divisor is the
    expected batch because the realised one is private; N is taken as public and equal for both
    neighbours.
    Noise is drawn in float64, added and then rounded to X's type; `accounting.gaussian` says what
    is left.
    Source: Abadi et al. 2016, Algorithm 1.
    """

    noise_multiplier: float
    max_grad_norm: float

    def __post_init__(self) -> None:
        must_be("a finite number >= 0", noise_multiplier=self.noise_multiplier)
        must_be("> 0", max_grad_norm=self.max_grad_norm)

    def __call__(
        self,
        model: nn.Sequential,
        X: torch.Tensor,
        y: torch.Tensor,
        *,
        expected_batch: float,
        rng: np.random.Generator,
    ) -> torch.Tensor:
        must_be("a finite number > 0", expected_batch=expected_batch)
        gradients.check_sample(model, X, y)
        size = n_parameters(model)
        total = torch.zeros(size, dtype=X.dtype)
        if len(X):
            total += gradients.clipped_sum(model, X, y, max_grad_norm=self.max_grad_norm)
        if self.noise_multiplier:
            noise = torch.from_numpy(rng.standard_normal(size))  # doubles: floats end at 5.8
            total.add_(noise, alpha=self.noise_multiplier * self.max_grad_norm)
        return total.div_(expected_batch)

    def bits(self, size: int) -> int:
        """Bits of one upload of a model of `size` parameters: every coordinate as a float32."""
        return dense_bits(size)
