"""Runs the chosen tests of ceph/s3-tests against an origin, and through Forebay to it.

    python run.py --s3-tests DIR --forebay BINARY [--origin rgw|moto] [--only PATTERN]

Three runs: *direct* against the origin; *cold* through a worker with an empty cache; *warm*
through another, with each GET and HEAD compared with the origin's and repeated (compare.py).
Prints a table and every test that passes direct and fails through Forebay, and ends with 1 if
there is one.
"""

import argparse
import signal
import sys
from pathlib import Path

import moto_server
import report
import rgw
import selection
import suite
import worker

ORIGINS = {"rgw": rgw.Rgw, "moto": moto_server.Moto}


def main():
    args = arguments()
    # So that what was started is ended, also on a time limit's SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    tests = selection.chosen(args.s3_tests, args.only)
    if not tests:
        sys.exit(f"no test of {args.s3_tests} has a name with {args.only!r} in it")
    with ORIGINS[args.origin]() as origin:
        outcomes = three_runs(args, origin, list(tests))
    sys.exit(report.show(args.origin, tests, outcomes))


def three_runs(args, origin, tests):
    outcomes = {}

    def run(name, endpoint, *plugin):
        print(f"\n==> {name}: {len(tests)} tests against {endpoint}", flush=True)
        outcomes[name] = suite.run(args.s3_tests, endpoint, origin.API_NAME, tests, plugin)

    run("direct", origin.endpoint)
    with worker.Worker(args.forebay, origin.endpoint) as forebay:
        run("cold", forebay.endpoint)
    with worker.Worker(args.forebay, origin.endpoint) as forebay:
        origin_and_forebay = ("--compare-with", origin.endpoint, "--compare-through", forebay.endpoint)
        run("warm", forebay.endpoint, "-p", "compare", *origin_and_forebay)
    return outcomes


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--s3-tests", type=checkout, required=True, help="a checkout of ceph/s3-tests")
    parser.add_argument("--forebay", required=True, help="the binary")
    parser.add_argument("--origin", choices=ORIGINS, default="rgw")
    parser.add_argument("--only", default="", help="a pattern in the names of tests")
    return parser.parse_args()


def checkout(text):
    path = Path(text).resolve()
    missing = [file for file in selection.FILES if not (path / file).is_file()]
    if missing:
        raise argparse.ArgumentTypeError(f"{path} is no checkout of ceph/s3-tests: it has no {missing[0]}")
    return path


if __name__ == "__main__":
    main()
