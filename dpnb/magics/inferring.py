"""What ``%%dpinfer`` reads: how sure or how wide, and by which method."""

from __future__ import annotations

from typing import Any

from dpnb.magics.lines import read_number, read_whole


def inference_options(options: Any) -> dict[str, Any]:
    """Return the arguments of ``Session.infer`` from a magic's options."""
    given: dict[str, Any] = {
        "intervals": "each" if options.each else "simultaneous",
        "guaranteed": options.guaranteed,
        "chosen": "any" if options.chosen == "any" else read_whole(options.chosen, "--chosen"),
    }
    for name in ("confidence", "error"):
        text = getattr(options, name)
        if text is not None:
            given[name] = read_number(text, f"--{name}")
    if options.between is not None:
        given["between"] = [read_number(text, "--between") for text in options.between]
    if options.method is not None:
        given["method"] = options.method
    if options.nonnegative:
        given["prior"] = "nonnegative"
    return given
