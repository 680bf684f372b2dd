"""Policies in NumPy: files of older versions, both sides of one, and what an environment's own terms are."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from offdyn._util.errors import OffdynError
from offdyn.data.collect.snapshots import read_behaviour, stacked, write_behaviour
from offdyn.envs.custom import OwnPair
from offdyn.policies.trained import EnvironmentPolicy, Policies, Policy

from ..export import made_up

SEEN = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)


def saved(path: Path, arrays: dict[str, np.ndarray], **about: Any) -> Path:
    save_file(arrays, path, {"about": json.dumps({"format": 1, "run": "a", **about})})
    return path


@pytest.mark.parametrize("depth", [1, 3])
def test_a_file_that_does_not_tell_its_steps_is_read_as_layers_with_relu_between_them(
    depth: int, tmp_path: Path
) -> None:
    generator = np.random.default_rng(0)
    sizes = [3, *[5] * (depth - 1), 2]
    arrays = {"observation.mean": generator.normal(size=3), "observation.deviation": generator.uniform(1, 2, 3)}
    x = (SEEN - arrays["observation.mean"]) / arrays["observation.deviation"]
    for layer in range(depth):
        weight, bias = generator.normal(size=sizes[layer : layer + 2]), generator.normal(size=sizes[layer + 1])
        arrays |= {f"layers.{layer}.weight": weight, f"layers.{layer}.bias": bias}
        x = (np.maximum(x, 0) if layer else x) @ weight + bias
    path = saved(tmp_path / "p.safetensors", {k: v.astype(np.float32) for k, v in arrays.items()}, activation="relu")
    np.testing.assert_allclose(Policy(path)(SEEN), np.tanh(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("steps", [["linear", "sort", "linear"], ["linear", "relu"], [], "linear"])
def test_steps_that_nobody_knows_are_refused_in_words(steps: Any, tmp_path: Path) -> None:
    arrays = made_up.random_policies(3, 2, normalised=True).named()
    with pytest.raises(OffdynError, match="not a policy of a run"):
        Policy(saved(tmp_path / "p.safetensors", arrays, steps=steps))


def test_a_residual_policy_is_its_formula(tmp_path: Path) -> None:
    policies = made_up.random_policies(3, 2, normalised=True, backbone="simba")
    of = {name: array.astype(np.float64) for name, array in policies.named().items()}

    def norm(x: np.ndarray, number: int) -> np.ndarray:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * of[f"norms.{number}.scale"] + of[f"norms.{number}.shift"]

    def linear(x: np.ndarray, number: int) -> np.ndarray:
        return x @ of[f"layers.{number}.weight"] + of[f"layers.{number}.bias"]

    for side in ("target", "source"):
        if side == "source":
            of["layers.0.bias"] = of["source.bias"]
        x = linear((SEEN - of["observation.mean"]) / of["observation.deviation"], 0)
        for block in (0, 1):
            x = x + linear(np.maximum(linear(norm(x, block), 2 * block + 1), 0), 2 * block + 2)
        path = saved(tmp_path / "p.safetensors", policies.named(), steps=list(policies.steps))
        np.testing.assert_allclose(Policy(path, side)(SEEN), np.tanh(linear(norm(x, 2), 5)), rtol=1e-4, atol=1e-5)


def test_the_sources_side_stays_with_a_policy_wherever_it_goes(tmp_path: Path) -> None:
    lanes = [made_up.random_policies(3, 2, normalised=True, seed=seed, backbone="simba") for seed in (0, 1)]
    both = stacked(lanes)
    for number, alone in enumerate(lanes):
        wanted = alone.source(SEEN[None])
        assert np.abs(wanted - alone(SEEN[None])).max() > 0.01
        again = Policies.from_stacked(both.stacked(np.array([number])))
        for policies in (both.lane(number), again, alone.map(np.copy)):
            np.testing.assert_array_equal(policies.source(SEEN[None]), wanted)
    write_behaviour(tmp_path / "b.safetensors", lanes[1], {"quality": "expert"})
    kept = read_behaviour(tmp_path / "b.safetensors").policies
    np.testing.assert_array_equal(kept.source(SEEN[None]), lanes[1].source(SEEN[None]))
    assert lanes[0].source.source_bias is None


def test_policies_with_and_without_a_source_side_play_together_as_in_the_target() -> None:
    lanes = [made_up.random_policies(3, 2, normalised=True, seed=seed, backbone="simba") for seed in (0, 1)]
    both = stacked([lanes[0], lanes[1].source])
    assert both.source_bias is None
    np.testing.assert_array_equal(both.lane(0)(SEEN[None]), lanes[0](SEEN[None]))


PARTS = (("arm.angle", 2), ("arm.speed", 2), ("load", 1))
PAIR = OwnPair("mine", None, "nowhere:to_be_found", 9, PARTS, (-3.0, 0.0), (5.0, 0.25))
MATRIX = OwnPair("mine", None, "nowhere:to_be_found", 9, (("observation", 6),), (-3.0,), (5.0,))


def in_its_units(pair: OwnPair, folder: Path) -> tuple[EnvironmentPolicy, Policy]:
    size, actions, *_ = pair.spec
    policies = made_up.random_policies(size, actions, normalised=True)
    path = saved(folder / "p.safetensors", policies.named(), steps=list(policies.steps))
    return EnvironmentPolicy(path, pair), Policy(path)


def test_a_nested_observation_is_its_parts_side_by_side(tmp_path: Path) -> None:
    policy, normalised = in_its_units(PAIR, tmp_path)
    flat = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    expected = np.array([1.0, 0.125]) + np.array([4.0, 0.125]) * normalised(flat)
    nested = {"load": flat[:, 4:], "arm": {"speed": flat[:, 2:4].reshape(4, 2, 1), "angle": flat[:, :2]}}
    np.testing.assert_allclose(policy(nested), expected, atol=1e-5)
    np.testing.assert_allclose(policy(flat), expected, atol=1e-5)
    one = {"load": flat[0, 4:], "arm": {"speed": flat[0, 2:4].reshape(2, 1), "angle": flat[0, :2].tolist()}}
    np.testing.assert_allclose(policy(one), expected[0], atol=1e-5)
    scalar = one | {"load": float(flat[0, 4])}
    np.testing.assert_allclose(policy(scalar), expected[0], atol=1e-5)
    assert policy(one).shape == (2,)


def test_an_observation_of_several_axes_is_flattened(tmp_path: Path) -> None:
    policy, _ = in_its_units(MATRIX, tmp_path)
    flat = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    for shape in ((2, 3), (6, 1), (3, 2)):
        np.testing.assert_allclose(policy(flat.reshape(4, *shape)), policy(flat), atol=1e-6)
        np.testing.assert_allclose(policy(flat[0].reshape(shape)), policy(flat[0]), atol=1e-6)
    assert policy(flat.reshape(2, 2, 2, 3)).shape == (2, 2, 1)


def test_actions_are_never_outside_of_the_action_space(tmp_path: Path) -> None:
    low, high = (-3.0, 0.1, 1000.0), (5.0, 0.7, 1000.0031)  # numbers that rounding leads out of
    policy, _ = in_its_units(OwnPair("mine", None, "nowhere:to_be_found", 9, PARTS, low, high), tmp_path)
    acted = policy(1e6 * np.random.default_rng(0).normal(size=(2000, 5)))
    assert acted.dtype == np.float32
    assert (acted.astype(np.float64) >= low).all()
    assert (acted.astype(np.float64) <= high).all()
    assert (np.ptp(acted, axis=0) > 0.9 * (np.array(high) - low)).all()


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        ({"load": [1.0], "arm": {"angle": [1, 2]}}, "expected observations with the parts arm.angle of 2"),
        ({"load": [1.0], "arm": {"angle": [1, 2], "speed": [1, 2, 3]}}, r"speed \(3,\)"),
        ({"load": [[1.0]] * 3, "arm": {"angle": np.zeros((2, 2)), "speed": np.zeros((2, 2))}}, r"load \(3, 1\)"),
        (np.zeros(4), "expected observations of 5 numbers"),
    ],
)
def test_what_is_no_observation_is_refused_in_words(observation: Any, words: str, tmp_path: Path) -> None:
    policy, _ = in_its_units(PAIR, tmp_path)
    with pytest.raises(OffdynError, match=words):
        policy(observation)


def test_made_up_files_hold_what_training_writes(tmp_path: Path) -> None:
    run = made_up.run(tmp_path, **made_up.SIMBA)
    assert "source.bias" in load_file(run.path / "policy.safetensors")
