"""Draws the README's pictures anew: cells run in JupyterLab, in its light and its dark theme.

python -m tests.lab.pictures [NAME ...]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.kit.jupyterlab import browsing, serving

IMAGES = Path(__file__).parents[2] / "notebooks" / "images"
WIDTH = 1000
SETUP = """
%load_ext dpnb
%dpopen adult --epsilon 3 --delta 1e-6 --ledger {name}.ledger
"""
SHARES = """%%dpquery --rho 0.04 -o income
SELECT marital_status, AVG(high_income) AS share
FROM adult
GROUP BY marital_status
ORDER BY share DESC"""
TALLEST = {"decision": 840, "risk": 935, "provenance": 1_100}
"""Where a picture ends, where it is not the whole cell."""
STYLE = ".jp-Cell .jp-Toolbar, .jp-Collapser { visibility: hidden }"

SCENES = {
    # name: cells before, the cell of the picture, what is chosen in it
    "answer": ((SETUP,), SHARES, ("Married-civ-spouse", "Never-married")),
    "explanation": (
        (SETUP, SHARES),
        "%%dpexplain income --rho 0.1 --yes\n'Married-civ-spouse' > 'Never-married'",
        (),
    ),
    "inference": (
        (
            SETUP,
            "%%dpquery --rho 0.05 --quiet --yes\n"
            "SELECT education, sex, COUNT(*) AS n FROM adult GROUP BY education, sex",
        ),
        "%%dpinfer\nSELECT COUNT(*) AS women FROM adult\n"
        "WHERE sex = 'Female' AND education IN ('Bachelors', 'Masters', 'Doctorate')",
        (),
    ),
    "decision": (
        (SETUP,),
        "%%dpdecide --most 0.1 --yes\n"
        "SELECT occupation, COUNT(*) AS people, COUNT(*) FILTER (WHERE high_income = 1) AS well_paid\n"
        "FROM adult GROUP BY occupation\n"
        "HAVING COUNT(*) > 1500 AND COUNT(*) FILTER (WHERE high_income = 1) > 400",
        (),
    ),
    "risk": (
        (
            "import dpnb\n%load_ext dpnb\n"
            "curator = dpnb.Curator([dpnb.datasets.adult(public=True)], "
            "budget=dpnb.Budget(rho=3, delta=1e-6))\n%dpopen curator --as owner",
        ),
        "%%dprisk --by sex\nSELECT SUM(capital_gain) AS gain FROM adult",
        (),
    ),
    "provenance": (
        (
            "import dpnb\n%load_ext dpnb\n"
            "curator = dpnb.Curator([dpnb.datasets.adult()], analysts={'alice': 4, 'bob': 1}, "
            "views='attributes', budget=dpnb.Budget(epsilon=3, delta=1e-6))\n"
            "alice, bob = curator.session('alice'), curator.session('bob')\n"
            "alice.query('SELECT education, COUNT(*) AS n FROM adult GROUP BY education', error=40)\n"
            "bob.query('SELECT education, COUNT(*) AS n FROM adult GROUP BY education', error=90)\n"
            "alice.query('SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex', error=30)\n"
            "bob.query('SELECT race, COUNT(*) AS n FROM adult GROUP BY race', error=60);",
        ),
        "curator.provenance",
        (),
    ),
}


def main(names: list[str]) -> None:
    """Draw the pictures of these names, or all."""
    with (
        tempfile.TemporaryDirectory() as home,
        tempfile.TemporaryDirectory() as root,
        serving(Path(home), Path(root)) as lab,
        browsing() as browser,
    ):
        for name in names or SCENES:
            before, cell, chosen = SCENES[name]
            lab.write(f"{name}.ipynb", *(one.replace("{name}", name) for one in before), cell)
            page = browser.new_page(
                viewport={"width": WIDTH, "height": 2400}, device_scale_factor=1.5
            )
            page.set_default_timeout(120_000)
            lab.open(page, f"{name}.ipynb")
            page.evaluate("void window.jupyterapp.commands.execute('application:toggle-left-area')")
            lab.run(page)
            page.wait_for_timeout(2_000)
            page.add_style_tag(content=STYLE)
            shown = page.locator(".jp-Cell").nth(len(before))
            for select, label in enumerate(chosen):
                shown.locator(".jp-OutputArea select:visible").nth(select).select_option(label)
            for theme in ("Light", "Dark"):
                lab.theme(page, theme)
                page.evaluate("document.activeElement?.blur()")
                page.mouse.move(1, 1)
                page.wait_for_timeout(1_500)
                box = shown.bounding_box()
                page.screenshot(
                    path=IMAGES / f"{name}-{theme.lower()}.png",
                    clip=box | {"height": min(TALLEST.get(name, 2_000), box["height"])},
                )
            page.close()
            print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
