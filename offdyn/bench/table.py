"""The figures of `offdyn bench` for people."""

from typing import Any


def table(found: dict[str, Any]) -> str:
    parts = [_machine(found["surroundings"])]
    cores = found["surroundings"]["machine"]["cores"]
    if found["load"] > 0.5 * cores:
        parts.append(
            f"NOT TO BE TRUSTED: other programs were at work (load {found['load']:.1f} on {cores} cores). Speeds are "
            "too low, and shares may be anything."
        )
    if found["updates"]:
        parts.append(_updates(found["updates"]))
    if found["physics"]:
        parts.append(_physics(found["physics"]))
    parts += [_training(row) for row in found["training"]]
    if found["backbones"]:
        parts.append(_backbones(found["backbones"]))
    if found["sources"]:
        parts.append(_sources(found["sources"]))
    parts.append(f"Measured in {found['seconds']:.0f} seconds.")
    return "\n\n".join(parts)


def _machine(about: dict[str, Any]) -> str:
    machine, device, packages = about["machine"], about["device"], about["packages"]
    devices = f"{device['count']} x {device['kind']}" if device["platform"] != "cpu" else "no GPU"
    return (
        f"{devices}, {machine['cores']} cores of {machine['processor']}\n"
        f"offdyn {about['offdyn']}, JAX {packages['jax']}, MuJoCo {packages['mujoco-core']}, Python {about['python']}"
    )


def _updates(rows: list[dict[str, Any]]) -> str:
    rates = rows[0]
    lines = [
        f"UPDATES of PAR, preset paper, {rates['robot']}; floor: products at {rates['product_gflops']:,.0f} GFLOP/s, "
        f"copies at {rates['copy_gbytes']:,.0f} GB/s",
        "lanes  devices   ms/update   run-updates/s   floor, ms   share of its speed",
    ]
    for row in rows:
        floor = max(row["arithmetic_floor_milliseconds"], row["memory_floor_milliseconds"])
        lines.append(
            f"{row['lanes']:5d}  {row['devices']:7d}  {row['milliseconds']:10.3f}   "
            f"{row['run_updates_per_second']:13,.0f}   {floor:9.3f}   {row['share_of_floor']:18.0%}"
        )
    return "\n".join(lines)


def _physics(rows: list[dict[str, Any]]) -> str:
    cores, bodies = rows[0]["cores"], rows[0]["bodies"]
    lines = [
        f"PHYSICS, environment steps/s of {bodies} bodies; floor: MuJoCo alone, in bare loops",
        f"robot          one core   share of its floor   {cores:3d} cores   share of its floor",
    ]
    lines += [
        f"{row['robot']:12}   {row['threads_1']:8,.0f}   {row['share_of_limit_1']:18.0%}   "
        f"{row[f'threads_{cores}']:9,.0f}   {row[f'share_of_limit_{cores}']:18.0%}"
        for row in rows
    ]
    return "\n".join(lines)


def _training(row: dict[str, Any]) -> str:
    return (
        f"TRAINING of {row['lanes']} runs, {row['robot']}, evaluation included\n"
        f"{row['steps_per_second']:,.0f} source steps/s a run, {row['run_steps_per_second']:,.0f} in all, "
        f"{row['share_of_floor']:.0%} of the floor's speed\n"
        f"{row['milliseconds']:.3f} ms a step; floors: device {row['device_floor_milliseconds']:.3f} ms, physics "
        f"{row['physics_floor_milliseconds']:.3f} ms\n"
        f"the physics takes {row['physics_share']:.1%} of all cores' time, the device waits for the host "
        f"{row['device_waits_share']:.0%} of the time\n"
        f"its first 200 steps were done {row['start_up_seconds']:.1f} s after the start"
    )


def _backbones(rows: list[dict[str, Any]]) -> str:
    lines = [
        f"BACKBONES, updates of SAC, {rows[0]['robot']}; hours: of 100,000 target steps, all lanes at once",
        "backbone    width  lanes   ms/update   updates/target step   hours",
    ]
    lines += [
        f"{row['backbone']:10}  {row['width']:5d}  {row['lanes']:5d}  {row['milliseconds']:10.3f}   "
        f"{row['updates_per_target_step']:19d}   {row['hours']:5.1f}"
        for row in rows
    ]
    return "\n".join(lines)


def _sources(rows: list[dict[str, Any]]) -> str:
    lines = [
        "SOURCES, environment steps/s as a training makes them; of those in JAX also through the host, and alone: with "
        "nothing brought there",
        f"{'source':34}  environments       steps/s  through host         alone",
    ]
    for row in rows:
        speeds = [row[name] for name in ("steps_per_second", "by_host_per_second", "alone_per_second") if name in row]
        lines.append("  ".join((f"{row['source']:34}", f"{row['environments']:12d}", *(f"{s:12,.0f}" for s in speeds))))
    return "\n".join(lines)
