"""What came out: a table by group, and each test that Forebay makes fail."""

import re
from collections import Counter

import selection
import suite

THROUGH = ("cold", "warm")
REASON_LINES = 12


def show(origin, tests, outcomes):
    """Prints it; the exit code."""
    groups = {name: selection.group_of_name(tests, name) for run in outcomes.values() for name in run}
    _table(origin, groups, outcomes)
    worse, otherwise = [], []
    for run in THROUGH:
        for name in groups:
            direct, through = outcomes["direct"].get(name), outcomes[run].get(name, "did not run")
            if through == suite.PASSED:
                continue
            if direct == suite.PASSED or suite.ANSWERS_DIFFER in through:
                worse.append((run, name, through))
            elif _gist(direct) != _gist(through):
                otherwise.append((run, name, through))
    _reasons(f"{len(otherwise)} that fail direct fail otherwise through Forebay", otherwise)
    _reasons(f"{len(worse)} that pass direct fail through Forebay, or were answered otherwise", worse)
    return 1 if worse else 0


def _table(origin, groups, outcomes):
    print(f"\n{'origin: ' + origin:<14}{'direct':>14}{'cold':>14}{'warm':>14}")
    for group in [*selection.GROUPS, "all"]:
        names = [name for name, of in groups.items() if group in (of, "all")]
        if names:
            cells = (_cell(outcomes[run], names) for run in ("direct", *THROUGH))
            print(f"{group:<14}" + "".join(f"{cell:>14}" for cell in cells))
    print("(passed / failed)")
    for reason, count in Counter(selection.LEFT_OUT.values()).items():
        print(f"left out: {count:>3}  {reason}")


def _cell(outcome, names):
    counts = Counter(_verdict(outcome.get(name)) for name in names)
    return f"{counts[suite.PASSED]} / {counts['failed']}"


def _verdict(outcome):
    return outcome if outcome in (suite.PASSED, suite.SKIPPED) else "failed"


def _gist(outcome):
    """A reason without what differs from run to run: names with chance in them, numbers, times."""
    return re.sub(r"forebay-\w+|0x\w+|\d+", "", (outcome or "").partition("\n")[0])


def _reasons(title, failures):
    print(f"\n{title}")
    for run, name, why in failures:
        print(f"  {run} {name}")
        print("".join(f"      {line}\n" for line in why.splitlines()[:REASON_LINES]), end="")
