"""Which images run here. A Pod is not started from its image: the image's name says which actor to be.

`recordevents` and its successor `eventshub` are the images of Knative's own tests; registry, tag and digest may differ.
"""

from __future__ import annotations

from typing import Literal

Image = Literal["recordevents", "eventshub"]

RUNNABLE: tuple[Image, ...] = ("recordevents", "eventshub")


def known_image(reference: str) -> Image | None:
    """The actor behind an image reference such as `gcr.io/x/recordevents@sha256:…`; None for any other image."""
    name = reference.partition("@")[0].rpartition("/")[2].partition(":")[0]
    for image in RUNNABLE:
        if name == image:
            return image
    return None


def refusal(references: list[str]) -> str:
    """What a person is told about a Pod that cannot run here."""
    images = ", ".join(references) or "no image"
    return (
        f"This node starts no containers and cannot run {images}. It runs Pods whose images are all named "
        f"{' or '.join(RUNNABLE)} (any registry, tag or digest). Run other programs beside penstock and refer to them "
        "by uri, or use a real cluster."
    )
