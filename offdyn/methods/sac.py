"""SAC itself: no correction at all. On both domains' rows it is PAR with penalty 0."""

from .method import Method, Preset

SAC = Method(
    name="sac",
    summary="plain SAC on the rows of both domains, or of one",
    pads=True,
    presets={
        "paper": Preset(),
        "released": Preset({"source_noise": 0.2}),
        # ODRL's fine-tuning: noisy actions in both domains, half the batch.
        "odrl": Preset({"source_noise": 0.2, "target_noise": 0.2, "batch_size": 128}),
    },
)
