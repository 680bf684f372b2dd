"""All that a process of the suite needs, imported once; nothing here computes."""

import h5py  # noqa: F401
import jax  # noqa: F401
import mujoco  # noqa: F401
import optax  # noqa: F401
import pyarrow.parquet  # noqa: F401
import tensorboardX  # noqa: F401

import offdyn.algos.registry
import offdyn.api
import offdyn.cli.main
import offdyn.data.doctor
import offdyn.export
import offdyn.studies.run  # noqa: F401

from . import inputs, trainings  # noqa: F401
