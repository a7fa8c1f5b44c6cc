"""What most people do first, in an installed dpnb: a table, a statement, its answer as text and HTML.

Run by test_packaging.py in environments that hold nothing but dpnb and what it brings.
"""

from __future__ import annotations

import sys
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


def main() -> None:
    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    shell = InteractiveShell.instance(config=config)

    def run(cell: str) -> object:
        done = shell.run_cell(cell)
        done.raise_error()
        return done.result

    run("%load_ext dpnb")
    run("%dpopen adult --epsilon 3 --delta 1e-6 --ledger adult.ledger")
    answer = run(
        "%%dpquery --rho 0.02 -o income\n"
        "SELECT sex, COUNT(*) AS n, AVG(high_income) AS share FROM adult GROUP BY sex"
    )
    assert "Female" in repr(answer)
    assert "rho 0.02" in repr(answer)
    html = answer._repr_html_()
    assert "<table" in html
    assert "Female" in html
    frame = run("income.to_frame()")
    assert list(frame["sex"]) == ["Female", "Male"]
    assert (frame["n_low"] < frame["n"]).all()
    run("income.to_html('income.html'); income.plot(); income.widget()")
    assert Path("income.html").stat().st_size > 1000
    explained = run("%%dpexplain income --of share --rho 0.1 --yes\n'Male' > 'Female'")
    assert len(explained.to_frame()) == 5
    told = run("%%dpinfer\nSELECT COUNT(*) AS n FROM adult")
    assert abs(told.estimate - 32_561) < 1_000
    chosen = run(
        "%%dpdecide --most 0.01 --yes\n"
        "SELECT education, COUNT(*) AS n FROM adult GROUP BY education HAVING COUNT(*) > 800"
    )
    assert "Bachelors" in repr(chosen)
    for line in ("%dpbudget", "%dphistory", "%dptables"):
        assert "adult" in repr(run(line)) or "rho" in repr(run(line))

    import dpnb

    print(dpnb.__file__, dpnb.__version__)
    print("loaded:", *sorted({name.partition(".")[0] for name in sys.modules}))


if __name__ == "__main__":
    main()
