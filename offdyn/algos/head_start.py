"""Head start: SAC learns in the source first, then in both, where the source's share of a batch fades.

The target's first policy is one that was learned in the source, its critics know what a state is worth there, and
observations are normalised by what the source has shown. From then on the source is not stepped any more. Its
transitions keep the networks from forgetting what is alike in both domains, under a flag of their own. What is
deployed is a slow average of the actor: from one update to the next a gait comes and goes.

From a dataset no policy can be tried out, and SAC believes too much of what it has not seen; there the target begins at
once, and half of each batch stays the dataset's.
"""

from .method import Method, Preset

OFFLINE = {"head_start": 0, "learns_from": "both", "domain_input": "flag"}

HEAD_START = Method(
    "head-start",
    "the default: SAC on a modern critic, first in the source, then in both, the source less and less",
    pads=True,
    program="sac",
    presets={
        "fading": Preset(
            {
                "backbone": "simba",
                "critic_widths": (128, 128),
                "head_start": 250_000,
                "source_steps_per_target_step": 10,
                "updates_per_target_step": 8,
                "learns_from": "fading",
                "domain_input": "flag",
                "actor_average": 3e-4,
            },
            offline=OFFLINE,
        ),
        # Half the updates: for two CPU cores.
        "simba": Preset(
            {
                "backbone": "simba",
                "critic_widths": (128, 128),
                "head_start": 300_000,
                "source_steps_per_target_step": 10,
                "updates_per_target_step": 4,
                "learns_from": "target",
            },
            offline=OFFLINE,
        ),
    },
)
