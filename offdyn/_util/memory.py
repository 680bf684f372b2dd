"""How much memory this machine has left."""


def free_memory() -> int | None:
    """Bytes that a process may still take; None where nobody says."""
    try:
        with open("/proc/meminfo") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return None
