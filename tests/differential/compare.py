"""A pytest plugin: each GET and HEAD that a test sends is asked three times, and compared.

With --compare-with ORIGIN, a request goes to the origin first, then twice to Forebay (cold,
then from what the first one left there), and then once more for the test itself, which thus
reads a hit. The two answers of Forebay have to be the origin's: status, headers and bytes, or
for an error its code. The request goes out as it was signed, `Host` included, so the origin
verifies the same signature.

It hooks urllib3, which both botocore and requests send by. urllib3 is given the whole body to
read for the three, so a test that looks at its own answer piece by piece is not disturbed.
"""

import re
from urllib.parse import urlsplit

import pytest
import urllib3
from urllib3.connectionpool import HTTPConnectionPool

# Of each answer its own: when, by whom, over which connection, and which request it answers.
OF_THE_ANSWER = {
    "age", "connection", "date", "keep-alive", "server", "transfer-encoding",
    "x-amz-id-2", "x-amz-request-id", "x-forebay-cache",
}  # fmt: skip

# An error's words are each server's own; its code is what clients act on.
CODE = re.compile(rb"<Code>([^<]*)</Code>")


def pytest_addoption(parser):
    parser.addoption("--compare-with", help="the origin's endpoint")
    parser.addoption("--compare-through", help="Forebay's endpoint")


def pytest_configure(config):
    origin = config.getoption("--compare-with")
    if origin:
        config.pluginmanager.register(
            Comparison(urlsplit(origin), urlsplit(config.getoption("--compare-through")))
        )


class AnswersDiffer(AssertionError):
    """Forebay's answers were not the origin's."""


class Comparison:
    """What differed while the present test ran."""

    def __init__(self, origin, forebay):
        self._origin = HTTPConnectionPool(origin.hostname, origin.port)
        self._forebay = (forebay.hostname, forebay.port)
        self._differences = []
        self._compared = self._hits = 0
        self._urlopen = HTTPConnectionPool.urlopen
        HTTPConnectionPool.urlopen = self._hook()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self):
        """What differs is the failure, also of a test that has another of its own."""
        self._differences.clear()
        try:
            return (yield)
        finally:
            if self._differences:
                raise AnswersDiffer(" | ".join(self._differences))

    def pytest_terminal_summary(self, terminalreporter):
        told = f"compared {self._compared} requests with the origin's answers; {self._hits} were hits"
        terminalreporter.write_line(told)

    def _hook(self):
        comparison, urlopen = self, self._urlopen

        def compared(pool, method, url, *args, **kwargs):
            if method in ("GET", "HEAD") and (pool.host, pool.port) == comparison._forebay:
                comparison._compare(pool, method, url, kwargs.get("headers"))
            return urlopen(pool, method, url, *args, **kwargs)

        return compared

    def _compare(self, pool, method, url, headers):
        headers = {"Host": f"{pool.host}:{pool.port}", **(headers or {})}
        expected, cold, warm = (
            self._ask(asked, method, url, headers) for asked in (self._origin, pool, pool)
        )
        self._compared += 1
        self._hits += warm.headers.get("x-forebay-cache") == "hit"
        expected = parts_of(expected)
        for name, answer in (("cold", parts_of(cold)), ("warm", parts_of(warm))):
            if answer == expected:
                continue
            # Tests write from other threads: what the origin says now may be what is right.
            if parts_of(self._ask(self._origin, method, url, headers)) != expected:
                continue
            self._differences.append(f"{name} {method} {url}: {difference(expected, answer)}")

    def _ask(self, pool, method, url, headers):
        return self._urlopen(
            pool, method, url, headers=dict(headers), retries=False, redirect=False,
            preload_content=True, decode_content=False, assert_same_host=False,
        )  # fmt: skip


def parts_of(response: urllib3.BaseHTTPResponse):
    """What two answers to the same question have in common."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    body = response.data
    if response.status >= 400:
        code = CODE.search(body)
        return {"status": response.status, "code": code and code[1].decode()}
    if response.status == 304:
        # RGW leaves out the ETag that RFC 9110 asks for here, and Forebay does not.
        return {"status": response.status, "body": body}
    headers = {name: value for name, value in headers.items() if name not in OF_THE_ANSWER}
    return {"status": response.status, "body": body, **headers}


def difference(expected, answer):
    """Which parts differ, and how."""
    names = [name for name in sorted({*expected, *answer}) if expected.get(name) != answer.get(name)]
    return "; ".join(
        f"{name} is {shown(answer.get(name))}, at the origin {shown(expected.get(name))}" for name in names
    )


def shown(value):
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}... ({len(value)} bytes)"
