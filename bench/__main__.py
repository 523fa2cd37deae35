"""The command line of the measurements."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from bench import dispatch, isas


@dataclass(frozen=True)
class Measurement:
    """One subcommand: what it measures, its own arguments, and how it runs."""

    about: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]


MEASUREMENTS = {
    "dispatch": Measurement(dispatch.ABOUT, dispatch.add_arguments, dispatch.run),
    "isas": Measurement(isas.ABOUT, isas.add_arguments, isas.run),
}


def main() -> None:
    """Run the measurement that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    subparsers = parser.add_subparsers(required=True, metavar="MEASUREMENT")
    for name, measurement in MEASUREMENTS.items():
        subparser = subparsers.add_parser(name, help=measurement.about, description=measurement.about)
        subparser.add_argument("--threads", type=int, default=1, help="threads of a dispatch; by default 1")
        measurement.add_arguments(subparser)
        subparser.set_defaults(run=measurement.run)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
