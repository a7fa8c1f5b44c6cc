"""Cell and line magics: a thin layer over ``Session``."""

from __future__ import annotations

from typing import Any


def load(shell: Any) -> None:
    """Register the magics, ``%config Dpnb`` and the completer; a second call has no effect."""
    from dpnb.magics.cells import Dpnb
    from dpnb.magics.completion import completer
    from dpnb.magics.scopes import Calls
    from dpnb.magics.slips import slips

    if find(shell) is not None:
        return
    magics = vars(shell).pop("_dpnb", None)
    if magics is None:
        magics = Dpnb(shell)
    else:
        shell.configurables.append(magics)
    shell.register_magics(magics)
    shell.input_transformers_post.append(slips(magics))
    shell.ast_transformers.append(Calls(magics))
    if getattr(shell, "Completer", None) is not None:
        shell.Completer.custom_matchers.append(completer(magics))


def unload(shell: Any) -> None:
    """Undo everything that :func:`load` did; open sessions without a variable are closed.

    ``%reload_ext`` keeps them. The options, and what was spent, are kept for the next load.
    """
    from dpnb.magics.scopes import called_by

    magics = find(shell)
    if magics is None:
        return
    if not called_by("reload_extension"):
        magics.close()
    shell._dpnb = magics
    for kind in ("line", "cell"):
        functions = shell.magics_manager.magics[kind]
        for name in [n for n, f in functions.items() if getattr(f, "__self__", None) is magics]:
            del functions[name]
    shell.magics_manager.registry.pop(type(magics).__name__, None)
    shell.configurables[:] = [c for c in shell.configurables if c is not magics]
    for transformers in (shell.input_transformers_post, shell.ast_transformers):
        transformers[:] = [t for t in transformers if getattr(t, "dpnb", None) is not magics]
    if getattr(shell, "Completer", None) is not None:
        matchers = shell.Completer.custom_matchers
        matchers[:] = [m for m in matchers if getattr(m, "dpnb", None) is not magics]


def find(shell: Any) -> Any:
    """Return the registered magics of a shell, or None."""
    from dpnb.magics.cells import Dpnb

    return next((c for c in getattr(shell, "configurables", ()) if isinstance(c, Dpnb)), None)


def options(*, display: str | None = None, ask_above: float | None = None) -> dict[str, Any]:
    """Set and return the options of the magics, as ``%config Dpnb`` does.

    Parameters
    ----------
    display : {'auto', 'static', 'widget'}, optional
        How answers are shown: as a static table, or with a live widget; 'auto' adds the widget in a
        notebook editor.
    ask_above : float, optional
        From 0 to 1: dpnb asks before it spends more than this share of what is left. With 1 it asks
        only before a decision that may cost more than is left.

    Returns
    -------
    dict of str to value
        The current ``display`` and ``ask_above``.

    Raises
    ------
    RequestError
        If the magics are not loaded, and for a value out of range.
    """
    from IPython import get_ipython

    from dpnb.errors import RequestError, given

    magics = find(get_ipython())
    if magics is None:
        raise RequestError("the magics are not loaded", "Run %load_ext dpnb first.")
    if display is not None:
        if display not in ("auto", "static", "widget"):
            raise RequestError(
                f"display must be 'auto', 'static' or 'widget', got {given(display)}",
                "Write display='auto'.",
            )
        magics.display = display
    if ask_above is not None:
        if not 0 <= ask_above <= 1:
            raise RequestError(
                f"ask_above must be between 0 and 1, got {given(ask_above)}",
                "Write ask_above=0.25.",
            )
        magics.ask_above = ask_above
    return {"display": magics.display, "ask_above": magics.ask_above}
