"""Makes an environment of its own for each peer, with fixed versions.

    python -m tests.benchmarks.peers.install [--folder FOLDER] [NAME ...]

Environments lie in the user's cache unless a folder is given. What cannot be installed is said, with
the reason, and kept for the report. Tumult needs Java 17.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dpnb-peers"
OWN = ["duckdb", "dpnb", "dpnb_pure"]
"""These run in dpnb's own environment."""
PEERS = {
    # DuckDB 2 refuses the window ORDER BY RANDOM() with which persons are bounded
    "smartnoise": ["smartnoise-sql==1.0.10", "duckdb==1.5.6"],
    "opendp": ["opendp[polars]==0.16.0"],
    "diffprivlib": [
        "diffprivlib==0.6.6",
        "scikit-learn==1.5.2",  # 0.6.6 does not import with later ones
        "pandas==3.1.1",
        "pyarrow==26.0.1",
    ],
    "pipelinedp": ["pipeline-dp==0.3.1", "python-dp==1.1.5", "pyarrow==26.0.1"],
    "tumult": ["tmlt.analytics==0.21.0", "tmlt.core==0.19.1", "pyspark==3.5.9"],
}


def interpreter(folder: Path, name: str) -> Path:
    """Return the Python of a peer's environment."""
    return folder / name / "bin" / "python"


def install(folder: Path, name: str) -> str:
    """Make one environment; returns what went wrong, or nothing."""
    reason = folder / f"{name}.failed"
    reason.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    steps = [
        [sys.executable, "-m", "venv", str(folder / name)],
        [str(interpreter(folder, name)), "-m", "pip", "install", "--quiet", *PEERS[name]],
    ]
    for step in steps:
        ran = subprocess.run(step, capture_output=True, text=True, check=False)
        if ran.returncode:
            said = [line for line in ran.stderr.splitlines() if line.startswith("ERROR")]
            reason.write_text((said or ran.stderr.splitlines() or ["no reason given"])[-1])
            return reason.read_text()
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args()
    for name in options.names or PEERS:
        failed = install(options.folder, name)
        print(f"{name}: {failed or 'installed'}", flush=True)


if __name__ == "__main__":
    main()
