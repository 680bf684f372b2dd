"""SAC, PAR and PAR-B once more, from the formulas, in float64 NumPy: what the engine is compared with.

A network's parameters are one vector here, in which its arrays follow one another. Functions accept complex vectors and
branch on real parts only, so that `slope` can differentiate them by an imaginary step, which has no cancellation.
"""

from collections.abc import Callable, Iterable
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

DOMAIN_INPUTS = {"none": 0, "flag": 1, "embedding": 32}


def relu(x: np.ndarray) -> np.ndarray:
    return np.where(x.real > 0, x, 0.0)


def elu(x: np.ndarray) -> np.ndarray:
    return np.where(x.real > 0, x, np.exp(np.where(x.real > 0, 0.0, x)) - 1.0)


def swish(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


ACTIVATION = {"relu": relu, "elu": elu, "swish": swish}


def smaller(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(x.real < y.real, x, y)


def least(values: Iterable[np.ndarray]) -> np.ndarray:
    return reduce(smaller, values)


def magnitude(x: np.ndarray) -> np.ndarray:
    return np.where(x.real < 0, -x, x)


def normalised(x: np.ndarray) -> np.ndarray:
    """LayerNorm without scale and shift."""
    centred = x - x.mean(1)[:, None]
    return centred / np.sqrt((centred**2).mean(1) + 1e-5)[:, None]


class Net(NamedTuple):
    """A network, by its sizes: inputs without the domain, hidden layers, outputs."""

    sizes: tuple[int, ...]
    norm: str = "none"  # LayerNorm before or after each activation
    activation: str = "relu"
    blocks: bool = False  # one residual block for each hidden size in place of a layer
    domain: str = "none"  # or flag, embedding

    def shapes(self) -> list[tuple[int, ...]]:
        """Of the arrays, in the order in which they are used."""
        inputs, *widths, outputs = self.sizes
        inputs += DOMAIN_INPUTS[self.domain]
        found: list[tuple[int, ...]] = [(2, 32)] if self.domain == "embedding" else []
        if self.blocks:
            width, inner = widths[0], 4 * widths[0]
            found += [(inputs, width), (width,)]
            found += [(width,), (width,), (width, inner), (inner,), (inner, width), (width,)] * len(widths)
            return [*found, (width,), (width,), (width, outputs), (outputs,)]
        for fan_in, fan_out in pairwise((inputs, *widths)):
            found += [(fan_in, fan_out), (fan_out,)]
            if self.norm != "none":
                found += [(fan_out,), (fan_out,)]
        return [*found, ((inputs, *widths)[-1], outputs), (outputs,)]

    @property
    def length(self) -> int:
        return sum(int(np.prod(shape)) for shape in self.shapes())

    def parameters(self, vector: np.ndarray) -> tuple[np.ndarray, ...]:
        """What offdyn calls a network; a stack of them where the vector has several rows."""
        assert vector.shape[-1] == self.length, "the vector does not fit the sizes"
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes()])
        parts = np.split(vector, ends[:-1], axis=-1)
        return tuple(part.reshape(vector.shape[:-1] + shape) for part, shape in zip(parts, self.shapes(), strict=True))

    def apply(self, vector: np.ndarray, x: np.ndarray, domain: Any = 0.0) -> np.ndarray:
        """[n, inputs] -> [n, outputs]; `domain`, one number or [n], is 1 for the source."""
        arrays = iter(self.parameters(vector))
        column = np.broadcast_to(domain, len(x))[:, None]
        if self.domain == "flag":
            x = np.hstack((x, column))
        elif self.domain == "embedding":
            of_target, of_source = next(arrays)
            x = np.hstack((x, np.where(column == 1, of_source, of_target)))

        def linear(x: np.ndarray) -> np.ndarray:
            return x @ next(arrays) + next(arrays)

        def norm(x: np.ndarray) -> np.ndarray:
            return normalised(x) * next(arrays) + next(arrays)

        if self.blocks:
            x = linear(x)
            for _ in self.sizes[1:-1]:
                x = x + linear(relu(linear(norm(x))))
            return linear(norm(x))
        for _ in self.sizes[1:-1]:
            x = linear(x)
            if self.norm == "before":
                x = norm(x)
            x = ACTIVATION[self.activation](x)
            if self.norm == "after":
                x = norm(x)
        return linear(x)


def flat(arrays: Iterable[np.ndarray]) -> np.ndarray:
    """The vector of a network that offdyn holds."""
    return np.concatenate([np.ravel(array) for array in arrays]).astype(float)


def flat_stack(arrays: Iterable[np.ndarray]) -> np.ndarray:
    """[k, P], of k networks side by side."""
    return np.stack([flat(one) for one in zip(*arrays, strict=True)])


def log_normal(u: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    return -(((u - mean) / std) ** 2) / 2 - np.log(std * np.sqrt(2 * np.pi))


def log_one_minus_tanh_squared(u: np.ndarray) -> np.ndarray:
    """1 - tanh^2 = 1 / cosh^2, and log cosh u = |u| + log(1 + e^(-2|u|)) - log 2."""
    size = magnitude(u)
    return -2 * (size + np.log(1 + np.exp(-2 * size)) - np.log(2.0))


def squashed_sample(
    head: np.ndarray, noise: np.ndarray, low: float = -20.0, high: float = 2.0
) -> tuple[np.ndarray, np.ndarray]:
    """a = tanh(mean + std * noise) and log pi(a|s), with the log-std clipped to [low, high]."""
    mean, log_std = np.split(head, 2, axis=1)
    log_std = np.where(log_std.real < low, low, np.where(log_std.real > high, high, log_std))
    u = mean + np.exp(log_std) * noise
    return np.tanh(u), (log_normal(u, mean, np.exp(log_std)) - log_one_minus_tanh_squared(u)).sum(1)


def average_l1(z: np.ndarray) -> np.ndarray:
    mean = magnitude(z).mean(1)[:, None]
    return z / np.where(mean.real > 1e-8, mean, 1e-8)


def slope(loss: Callable[[np.ndarray], np.ndarray], vector: np.ndarray, step: float = 1e-30) -> np.ndarray:
    """The gradient, one entry at a time: Im f(x + i h) / h."""
    gradient = np.zeros(vector.size)
    for entry in range(vector.size):
        moved = np.array(vector, complex)
        moved.flat[entry] += 1j * step
        gradient[entry] = np.imag(loss(moved)) / step
    return gradient.reshape(vector.shape)


def central_difference(loss: Callable[[np.ndarray], np.ndarray], vector: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """The gradient by (f(x + h) - f(x - h)) / 2h."""
    gradient = np.zeros(vector.size)
    for entry in range(vector.size):
        up, down = vector.copy(), vector.copy()
        up.flat[entry] += step
        down.flat[entry] -= step
        gradient[entry] = (loss(up) - loss(down)) / (2 * step)
    return gradient.reshape(vector.shape)


class Adam:
    """PyTorch's AdamW with its default coefficients; without decay, its Adam."""

    def __init__(self, value: np.ndarray, rate: float, decay: float = 0.0) -> None:
        self.value, self.rate, self.decay = np.array(value, float), rate, decay
        self.steps, self.first, self.second = 0, np.zeros_like(self.value), np.zeros_like(self.value)

    def step(self, gradient: np.ndarray) -> None:
        self.steps += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        first, second = self.first / (1 - 0.9**self.steps), self.second / (1 - 0.999**self.steps)
        shrunk = self.value * (1 - self.rate * self.decay)
        self.value = shrunk - self.rate * first / (np.sqrt(second) + 1e-8)


def clipped(gradient: np.ndarray, bound: float | None) -> np.ndarray:
    """The gradient shortened to a norm of `bound`, as torch.nn.utils.clip_grad_norm_ does."""
    norm = np.sqrt((gradient**2).sum())
    return gradient if bound is None or norm + 1e-6 <= bound else gradient * bound / (norm + 1e-6)
