"""Head start: SAC learns in the source first, and from then on in the target alone, with the same networks.

The target's first policy is one that was learned in the source, its critics know what a state is worth there, and
observations are normalised by what the source has shown. Nothing of the source is needed once the target begins.

From a dataset no policy can be tried out, and SAC believes too much of what it has not seen; there the target begins at
once, both domains' transitions are learned from, and the networks see which is which.
"""

from .method import Method, Preset

HEAD_START = Method(
    "head-start",
    "the default: SAC on a modern critic, first in the source, then in the target alone",
    pads=True,
    program="sac",
    presets={
        "simba": Preset(
            {
                "backbone": "simba",
                "critic_widths": (128, 128),
                "head_start": 300_000,
                "source_steps_per_target_step": 10,
                "updates_per_target_step": 4,
                "learns_from": "target",
            },
            offline={"head_start": 0, "learns_from": "both", "domain_input": "flag"},
        )
    },
)
