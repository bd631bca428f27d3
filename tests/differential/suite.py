"""s3-tests itself: its configuration, and one run of it against one endpoint."""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import urlsplit

import users

# A request that is never answered fails its test, not the run.
TEST_HANGS_AFTER_SECONDS = 180

# How a test ended; anything else is why it failed.
PASSED = "passed"
SKIPPED = "skipped"
# What such a reason begins with when compare.py is the one who complains.
ANSWERS_DIFFER = "AnswersDiffer"

HERE = Path(__file__).parent

CONFIG = """
[DEFAULT]
host = {host}
port = {port}
is_secure = False
ssl_verify = False

[fixtures]
bucket prefix = forebay-{{random}}-
"""

USER = """
[{user.section}]
display_name = {user.name}
user_id = {user.qualified_uid}
email = {user.email}
access_key = {user.access_key}
secret_key = {user.secret_key}
api_name = {api_name}
tenant = {user.tenant}
"""


def run(checkout, endpoint, api_name, tests, plugin_args=()):
    """Runs `tests` and says for each how it ended: passed, skipped, or why it failed."""
    with tempfile.TemporaryDirectory(prefix="forebay-s3-tests-") as directory:
        directory = Path(directory)
        config = directory / "s3tests.conf"
        config.write_text(_config(endpoint, api_name))
        chosen = directory / "chosen"
        chosen.write_text("\n".join(tests))
        report = directory / "report.xml"
        command = [
            sys.executable, "-B", "-m", "pytest", "-q", "--color=no", "--tb=short",
            "-p", "no:cacheprovider", "-W", "ignore", "--timeout", str(TEST_HANGS_AFTER_SECONDS),
            "--rootdir", str(checkout), "--junitxml", str(report), *plugin_args, f"@{chosen}",
        ]  # fmt: skip
        environment = {
            **os.environ,
            "S3TEST_CONF": str(config),
            "PYTHONPATH": str(HERE),
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        subprocess.run(command, cwd=checkout, env=environment, check=False)
        if not report.exists():
            raise RuntimeError("s3-tests did not run to its end: see above")
        return _outcomes(report)


def _config(endpoint, api_name):
    url = urlsplit(endpoint)
    sections = [USER.format(user=user, api_name=api_name) for user in users.EVERYBODY]
    return CONFIG.format(host=url.hostname, port=url.port) + "".join(sections)


def _outcomes(report):
    outcomes = {}
    for case in ET.parse(report).iter("testcase"):
        name = case.get("name")
        trouble = case.find("failure")
        trouble = case.find("error") if trouble is None else trouble
        if trouble is not None:
            outcomes[name] = (trouble.get("message") or "failed").strip()
        elif case.find("skipped") is not None:
            outcomes.setdefault(name, SKIPPED)
        else:
            outcomes.setdefault(name, PASSED)
    return outcomes
