"""What security costs: the order of the ways, their figures, and what the load generator is told. Measuring itself is
`python -m tools.benchmarks.secured`."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.destinations import Destinations
from penstock.settings import Settings
from tools.benchmarks import loadgen, secured
from tools.benchmarks.__main__ import AFTERWARDS
from tools.benchmarks.report import others
from tools.benchmarks.secured import GUARDED, OIDC, PLAIN, TLS, WAYS, Way, figures, lists, load, orders

LOAD_GENERATOR = f"""#!{sys.executable}
import json, os, sys
print("subscribers at http://127.0.0.1:1/s/<n>", file=sys.stderr, flush=True)
accepted = int("202" in sys.argv[2])
print(json.dumps({{"accepted": accepted, "answers": {{"401": 1}}, "flags": sys.argv[1:],
                   "token": os.environ["LOADGEN_TOKEN"]}}))
"""


@pytest.fixture
def load_generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that reports what it was told, and that accepts what is sent to an address with 202 in it."""
    file = tmp_path / "loadgen"
    file.write_text(LOAD_GENERATOR)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(loadgen, "BUILD", tmp_path)


def report(accepted: float, delivered: float, *, lost: int = 0, **answers: int) -> dict[str, Any]:
    told = {status.removeprefix("of_"): count for status, count in answers.items()}
    return {
        "accepted_per_second": accepted,
        "delivered_per_second": delivered,
        "lost": lost,
        "answers": {"202": 10, **told},
    }


def test_each_way_has_its_turn_in_each_round() -> None:
    found = orders(3)
    assert all(sorted(order) == sorted(WAYS) for order in found)
    assert (found[0][0], found[1][-1], found[2][0]) == (PLAIN, PLAIN, PLAIN)
    needs_switch = [name == OIDC for order in found for name in order]
    assert sum(one != other for one, other in zip([False, *needs_switch], needs_switch, strict=False)) == 3


def test_a_way_is_compared_with_the_plain_one_of_the_same_round() -> None:
    rounds = [{name: report(plain, plain) for name in WAYS} for plain in (1000.0, 2000.0, 4000.0)]
    for one, accepted, delivered in zip(rounds, (900.0, 1000.0, 2400.0), (500.0, 1800.0, 3200.0), strict=True):
        one[TLS] = report(accepted, delivered)
    found = figures(rounds)
    assert (found["accepted_plain"], found["accepted_tls"], found["delivered_tls"]) == (2000.0, 1000.0, 1800.0)
    assert (found["accepted_ratio_tls"], found["delivered_ratio_tls"]) == (0.6, 0.8)
    assert found["accepted_ratio_oidc"] == 1.0
    assert (found["lost"], found["refused"]) == (0, 0)


def test_what_was_lost_or_refused_in_any_round_is_told() -> None:
    rounds = [{name: report(1.0, 1.0) for name in WAYS} for _ in range(2)]
    rounds[0][TLS] = report(1.0, 1.0, lost=2, of_0=1)
    rounds[1][OIDC] = report(1.0, 1.0, lost=3, of_401=4)
    found = figures(rounds)
    assert (found["lost"], found["refused"]) == (5, 5)


def test_every_figure_is_shown_on_the_page() -> None:
    found = figures([{name: report(1234.0, 1000.0) for name in WAYS}])
    row = others({"penstock": {"secured": found}})[-1]
    assert row.startswith("| secured | accepted plain 1,234, accepted tls 1,234, ")
    assert "delivered ratio oidc 1.00, lost 0.00, refused 0.00 |" in row
    assert AFTERWARDS["secured"] is secured.measure


def test_the_lists_let_only_this_machine_pass_and_only_count_for_their_namespace() -> None:
    given = lists(300)
    assert len({*given["deny"], *given["allow"]}) == 300
    destinations = Destinations(Settings(deliver_namespaces=json.dumps({GUARDED: given})))  # type: ignore[arg-type]
    zone, other = destinations.zone(GUARDED), destinations.zone("bench")
    assert destinations.refusal(zone, "127.0.0.1") is None
    assert "198.18.7.0/24" in (destinations.refusal(zone, "198.18.7.1") or "")
    assert "198.19.41.0/24" in (destinations.refusal(zone, "198.19.41.1") or "")
    assert destinations.refusal(zone, "10.0.0.1") is not None
    assert destinations.refusal(other, "10.0.0.1") is None


@pytest.mark.usefixtures("load_generator")
def test_a_token_is_not_among_the_flags_of_the_load_generator() -> None:
    told = load(Way("https://202", "secret", "/ca.crt"), "127.0.0.1:1", 7.0)
    assert told["token"] == "secret"
    assert "secret" not in " ".join(told["flags"])
    assert told["flags"][told["flags"].index("-ca") + 1] == "/ca.crt"
    assert told["flags"][told["flags"].index("-duration") + 1] == "7.0s"


@pytest.mark.usefixtures("load_generator")
def test_without_a_token_none_is_sent_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADGEN_TOKEN", "of somebody else")
    told = load(Way("http://202"), "127.0.0.1:1", 7.0)
    assert (told["token"], "-ca" in told["flags"]) == ("", False)


@pytest.mark.usefixtures("load_generator")
def test_a_way_on_which_nothing_is_accepted_is_no_measurement() -> None:
    with pytest.raises(RuntimeError, match=r"http://closed has accepted nothing.*\{'401': 1\}"):
        load(Way("http://closed"), "127.0.0.1:1", 7.0)


def test_waiting_for_what_does_not_come_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secured, "SWITCH_SECONDS", 0.05)
    with pytest.raises(RuntimeError, match="nothing is there"):
        secured.until(lambda: None, "nothing is there")


@pytest.mark.parametrize("flag", ["--rounds", "--seconds", "--warm-up"])
def test_what_cannot_be_measured_is_refused(
    flag: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["secured", flag, "0"])
    with pytest.raises(SystemExit):
        secured.main()
    assert "more than 0" in capsys.readouterr().err
