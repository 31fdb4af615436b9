"""What a component's last words mean for the user. Pure: lines in, advice out."""

from __future__ import annotations

ADVICE = (
    (("No space left on device", "Disk quota exceeded"), "The disk is full: make room, or choose another --data-dir."),
    (
        ("OutOfMemoryError",),
        "It ran out of memory: raise kafka_heap_mib or spark_heap_mib (PENSTOCK_KAFKA_HEAP_MIB, …).",
    ),
    (
        ("Address already in use", "Failed to bind", "address already in use"),
        "Another program took its port: choose others with --port 0.",
    ),
    (
        ("There is insufficient memory for the Java Runtime Environment", "Cannot allocate memory"),
        "The machine has too little free memory: the stack needs about 1.6 GiB.",
    ),
    (
        ("InconsistentClusterIdException", "meta.properties"),
        "Kafka's files in the data folder do not belong together: choose another --data-dir.",
    ),
)


def remedy(lines: list[str]) -> str | None:
    """Advice for the newest line that means something; None if none does."""
    for line in reversed(lines):
        for signs, advice in ADVICE:
            if any(sign in line for sign in signs):
                return advice
    return None
