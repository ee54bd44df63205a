"""python3 -m keel.torch --ops | --devices: what is lowered, and where it may run."""
from __future__ import annotations

import argparse

from . import devices, table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m keel.torch", description=__doc__)
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--ops", action="store_true", help="the ops that Keel runs, as a table")
    group.add_argument("--devices", action="store_true", help="names for options={\"device\": ...}")
    given = parser.parse_args()
    if given.devices:
        for device in devices():
            print(f"{device.name}  {device.product}")
        return
    print(table())


if __name__ == "__main__":
    main()
