"""SAC, PAR and PAR-B once more, from the formulas, in float64 NumPy: what the engine is compared with.

A network here is one vector, in which its arrays follow one another. Functions accept complex vectors and branch on
real parts only, so that `slope` can differentiate them by an imaginary step, which has no cancellation.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, pairwise

import numpy as np

Network = list[tuple[np.ndarray, ...]]  # per layer: weight, bias and, under LayerNorm, scale and shift


def relu(x: np.ndarray) -> np.ndarray:
    return np.where(x.real > 0, x, 0.0)


def elu(x: np.ndarray) -> np.ndarray:
    return np.where(x.real > 0, x, np.exp(np.where(x.real > 0, 0.0, x)) - 1.0)


def smaller(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(x.real < y.real, x, y)


def magnitude(x: np.ndarray) -> np.ndarray:
    return np.where(x.real < 0, -x, x)


ACTIVATION = {"relu": relu, "elu": elu}


def network(vector: np.ndarray, sizes: Sequence[int], layer_norm: bool = False) -> Network:
    """The layers a vector holds, one behind the other."""
    layers, at = [], 0

    def take(*shape: int) -> np.ndarray:
        nonlocal at
        at += int(np.prod(shape))
        return vector[at - int(np.prod(shape)) : at].reshape(shape)

    for layer, (rows, columns) in enumerate(pairwise(sizes)):
        arrays = [take(rows, columns), take(columns)]
        if layer_norm and layer < len(sizes) - 2:
            arrays += [take(columns), take(columns)]
        layers.append(tuple(arrays))
    assert at == len(vector), "the vector does not fit the sizes"
    return layers


def parameters(vector: np.ndarray, sizes: Sequence[int], layer_norm: bool = False) -> tuple[np.ndarray, ...]:
    """What offdyn calls a network; twins where the vector has two rows."""
    if vector.ndim == 2:
        return tuple(np.stack(both) for both in zip(*(parameters(v, sizes, layer_norm) for v in vector), strict=True))
    return tuple(chain(*network(vector, sizes, layer_norm)))


def flat(arrays: Iterable[np.ndarray]) -> np.ndarray:
    """The vector of a network that offdyn holds."""
    return np.concatenate([np.ravel(array) for array in arrays]).astype(float)


def flat_twins(arrays: Iterable[np.ndarray]) -> np.ndarray:
    """[2, P]"""
    return np.stack([flat(one) for one in zip(*arrays, strict=True)])


def forward(layers: Network, x: np.ndarray, activation: Callable[[np.ndarray], np.ndarray] = relu) -> np.ndarray:
    """Linear, activation, LayerNorm where there is one; the last layer linear only."""
    for weight, bias, *norm in layers[:-1]:
        x = activation(x @ weight + bias)
        if norm:
            mean = x.mean(1)[:, None]
            variance = ((x - mean) ** 2).mean(1)[:, None]
            x = (x - mean) / np.sqrt(variance + 1e-5) * norm[0] + norm[1]
    weight, bias = layers[-1]
    return x @ weight + bias


def log_normal(u: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    return -(((u - mean) / std) ** 2) / 2 - np.log(std * np.sqrt(2 * np.pi))


def log_one_minus_tanh_squared(u: np.ndarray) -> np.ndarray:
    """1 - tanh^2 = 1 / cosh^2, and log cosh u = |u| + log(1 + e^(-2|u|)) - log 2."""
    size = magnitude(u)
    return -2 * (size + np.log(1 + np.exp(-2 * size)) - np.log(2.0))


def squashed_sample(
    actor: Network, s: np.ndarray, noise: np.ndarray, low: float = -20.0, high: float = 2.0
) -> tuple[np.ndarray, np.ndarray]:
    """a = tanh(mean + std * noise) and log pi(a|s), with the log-std clipped to [low, high]."""
    out = forward(actor, s)
    mean, log_std = np.split(out, 2, axis=1)
    log_std = np.where(log_std.real < low, low, np.where(log_std.real > high, high, log_std))
    u = mean + np.exp(log_std) * noise
    return np.tanh(u), (log_normal(u, mean, np.exp(log_std)) - log_one_minus_tanh_squared(u)).sum(1)


def q(critic: Network, s: np.ndarray, a: np.ndarray) -> np.ndarray:
    return forward(critic, np.hstack((s, a)))[:, 0]


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
    """PyTorch's Adam with its default coefficients."""

    def __init__(self, value: np.ndarray, rate: float) -> None:
        self.value, self.rate = np.array(value, float), rate
        self.steps, self.first, self.second = 0, np.zeros_like(self.value), np.zeros_like(self.value)

    def step(self, gradient: np.ndarray) -> None:
        self.steps += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        first, second = self.first / (1 - 0.9**self.steps), self.second / (1 - 0.999**self.steps)
        self.value = self.value - self.rate * first / (np.sqrt(second) + 1e-8)


def clipped(gradient: np.ndarray, bound: float | None) -> np.ndarray:
    """The gradient shortened to a norm of `bound`, as torch.nn.utils.clip_grad_norm_ does."""
    norm = np.sqrt((gradient**2).sum())
    return gradient if bound is None or norm + 1e-6 <= bound else gradient * bound / (norm + 1e-6)
