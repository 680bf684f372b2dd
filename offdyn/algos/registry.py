"""SAC itself: no correction at all. On both domains' transitions it is PAR with penalty 0."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .._util.errors import unknown
from .cql import CQL
from .cql_sac import CQL_SAC
from .darc import DARC, DARC_WEIGHT
from .duo import DUO
from .h2o import H2O
from .head_start import HEAD_START
from .method import Method, Preset
from .model_backup import MODEL_BACKUP
from .par import PAR, PAR_B
from .q_avatar import Q_AVATAR
from .vgdf import VGDF

SAC = Method(
    name="sac",
    summary="plain SAC on the transitions of both domains, or of one",
    pads=True,
    presets={
        "paper": Preset(),
        "released": Preset({"source_noise": 0.2}),
        # ODRL's fine-tuning: noisy actions in both domains, half the batch.
        "odrl": Preset({"source_noise": 0.2, "target_noise": 0.2, "batch_size": 128}),
    },
)


EVERY = (HEAD_START, DUO, SAC, PAR, PAR_B, DARC, DARC_WEIGHT, VGDF, Q_AVATAR, MODEL_BACKUP, CQL, CQL_SAC, H2O)
DEFAULT = HEAD_START.name
METHODS: dict[str, Method] = {method.name: method for method in EVERY}


@dataclass(frozen=True)
class Recipe:
    """A method with run defaults."""

    method: Method
    summary: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)  # settings that a user cannot change: they are the recipe
    first: str | None = None  # the recipe of the run, in the source, from whose networks it goes on
    offline: bool = False  # learns from a dataset


TARGET_ONLY = {"collects": "target", "learns_from": "target"}
SOURCE_ONLY = {"collects": "source", "learns_from": "source"}
DATASET_ONLY = {"collects": "none", "learns_from": "source"}

RECIPES: dict[str, Recipe] = {name: Recipe(method, method.summary) for name, method in METHODS.items()} | {
    "sac-tar": Recipe(SAC, "plain SAC in the target alone, one update per target step", TARGET_ONLY),
    "sac-tar-10": Recipe(
        SAC, "the same with ten updates per target step: PAR's number", {**TARGET_ONLY, "updates_per_target_step": 10}
    ),
    "sac-src": Recipe(SAC, "plain SAC in the source alone, one update per source step", SOURCE_ONLY),
    "sac-tune": Recipe(
        SAC,
        "sac-src, once per robot and seed, then sac-tar from its networks",
        {**TARGET_ONLY, "random_steps": 0},
        first="sac-src",
    ),
    # Its source critics have an agent of their own.
    "q-avatar": Recipe(Q_AVATAR, Q_AVATAR.summary, fixed={"learns_from": "target"}),
    "sac+bc": Recipe(PAR, "PAR on a dataset with penalty 0: SAC and behaviour cloning", {"penalty": 0.0}, offline=True),
    "cql-src": Recipe(CQL, "CQL on a dataset alone", DATASET_ONLY, offline=True),
    "cql-0": Recipe(
        CQL,
        "cql-src, once per robot and seed, tested in the target as it is",
        DATASET_ONLY,
        fixed={"tested_only": True},
        first="cql-src",
        offline=True,
    ),
    "vgdf+bc": Recipe(VGDF, "VGDF on a dataset, with behaviour cloning", {"optimistic": False}, offline=True),
}


def recipe(name: str) -> Recipe:
    """The recipe of this name, or an error with the nearest ones."""
    if name not in RECIPES:
        raise unknown("method", name, RECIPES)
    return RECIPES[name]
