"""The table of listed prices in the cache: made once, read without genai-prices, and made again if damaged."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

import pytest
from genai_prices import types as genai
from genai_prices.data_snapshot import DataSnapshot, set_custom_snapshot

from systems import ON_WINDOWS
from youbencha.gateway import price_list
from youbencha.gateway.price_list import PriceList, Tier, installed_version
from youbencha.user_dirs import Cache, default_cache_dir

DAY = date(2026, 1, 1)

PROGRAM = """
import sys
from datetime import date
from pathlib import Path
made = []
sys.addaudithook(lambda event, _: made.append(event) if event in ("socket.connect", "socket.getaddrinfo") else None)
from youbencha.gateway.price_list import PriceList
from youbencha.user_dirs import Cache
found = PriceList(Cache(Path(sys.argv[1]))).prices("anthropic", "claude-opus-4-5", date(2026, 1, 1))
loaded = [name for name in ("genai_prices", "httpx", "httpx2", "pydantic", "importlib.metadata") if name in sys.modules]
print(found.input[0].usd, *made, *loaded)
"""


def start(directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(directory)], stdout=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> list[str]:
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out.split()


def opus(directory: Path) -> Decimal:
    prices = PriceList(Cache(directory)).prices("anthropic", "claude-opus-4-5", DAY)
    assert prices is not None
    return prices.input[0].usd


def table_in(directory: Path) -> Path:
    (only,) = (directory / "prices").iterdir()
    return only


@pytest.fixture
def imports_nothing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From when it is called, genai-prices can no longer be imported."""
    return lambda: monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)


def test_the_table_is_made_once_and_nothing_is_fetched(tmp_path: Path) -> None:
    first, second = ended(start(tmp_path)), ended(start(tmp_path))
    assert first[:2] == ["5", "genai_prices"]
    assert second == ["5"]


def test_the_name_has_the_version_and_the_format(tmp_path: Path) -> None:
    opus(tmp_path)
    assert table_in(tmp_path).name == f"genai-prices-{version('genai-prices')}-3.json"


def test_another_version_has_another_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opus(tmp_path)
    table_in(tmp_path).write_text("from here on nothing reads this")
    monkeypatch.setattr(price_list, "installed_version", lambda: "99.1")
    assert opus(tmp_path) == 5
    assert len(list((tmp_path / "prices").iterdir())) == 2


def test_several_processes_may_make_it_concurrently(tmp_path: Path, imports_nothing: Callable[[], None]) -> None:
    answers = [ended(process) for process in [start(tmp_path) for _ in range(2)]]
    assert {answer[0] for answer in answers} == {"5"}
    imports_nothing()
    assert opus(tmp_path) == 5, "the one table that is left can be read"
    assert table_in(tmp_path).is_file()


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut off": lambda whole: whole[: len(whole) // 2],
    "zeros": lambda whole: bytes(len(whole)),
    "not UTF-8": lambda whole: b"\xff" + whole,
    "not an object": lambda _: b"null",
    "an array": lambda _: b"[]",
    "no providers": lambda _: b"{}",
    "a provider without models": lambda _: b'{"anthropic": 5, "openai": 5, "google": 5}',
    "not a price": lambda whole: whole.replace(b'"5"', b'"five"'),
    "a price that is null": lambda whole: whole.replace(b'"5"', b"null"),
    "no name of a model": lambda whole: whole.replace(b'"match"', b'"mtach"'),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_table_is_made_again(
    damage: Callable[[bytes], bytes], tmp_path: Path, imports_nothing: Callable[[], None]
) -> None:
    opus(tmp_path)
    table = table_in(tmp_path)
    whole = table.read_bytes()
    table.write_bytes(damage(whole))
    assert table.read_bytes() != whole
    assert opus(tmp_path) == 5
    assert table_in(tmp_path).read_bytes() == whole
    imports_nothing()
    assert opus(tmp_path) == 5


def test_reading_it_needs_no_genai_prices(tmp_path: Path, imports_nothing: Callable[[], None]) -> None:
    """So that the tests above are known to tell reading from making."""
    imports_nothing()
    with pytest.raises(ImportError):
        opus(tmp_path)


def test_an_unwritable_cache_does_not_prevent_its_use(tmp_path: Path) -> None:
    """Root may write to every directory, so here a file is in its place."""
    (tmp_path / "prices").write_text("")
    assert opus(tmp_path) == 5
    assert (tmp_path / "prices").read_text() == ""
    (tmp_path / "prices").unlink()
    opus(tmp_path)
    table = table_in(tmp_path)
    table.unlink()
    table.mkdir()
    assert opus(tmp_path) == 5
    assert list((tmp_path / "prices").iterdir()) == [table], "nothing half-written is left"


@pytest.mark.skipif(ON_WINDOWS, reason="there, the home directory is found in other ways")
def test_without_a_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """HOME is unset, and the user has no entry in the password file: so it is with `docker run --user 12345`."""
    import pwd

    def unknown(_: int) -> None:
        raise KeyError

    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(price_list, "default_cache_dir", default_cache_dir)
    with pytest.raises(RuntimeError):
        default_cache_dir()
    prices = PriceList().prices("anthropic", "claude-opus-4-5", DAY)
    assert prices is not None


def test_the_version_is_found_with_and_without_its_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    find = installed_version.__wrapped__
    assert find() == version("genai-prices")
    monkeypatch.setattr(price_list, "find_spec", lambda _: None)
    assert find() == version("genai-prices")


# -- what genai-prices can say ---------------------------------------------------------------------------------


def price(dollars: str) -> genai.ModelPrice:
    return genai.ModelPrice(input_mtok=Decimal(dollars), output_mtok=Decimal(dollars))


@pytest.fixture
def listed() -> Iterator[Callable[..., None]]:
    """Puts these models on Anthropic's list, in place of those that it has."""

    def put(*models: genai.ModelInfo) -> None:
        names = ("anthropic", "openai", "google")
        providers = [genai.Provider(id=name, name=name, api_pattern="", models=[]) for name in names]
        providers[0].models.extend(models)
        set_custom_snapshot(DataSnapshot(providers=providers, from_auto_update=False))

    yield put
    set_custom_snapshot(None)


def test_tiers_are_kept_in_order_and_prices_to_the_last_digit(listed: Callable[..., None], tmp_path: Path) -> None:
    tiers = genai.TieredPrices(
        base=Decimal("0.10"),
        tiers=[genai.Tier(start=500, price=Decimal("1E-7")), genai.Tier(start=20, price=Decimal("3.00"))],
    )
    prices = genai.ModelPrice(input_mtok=tiers, output_mtok=Decimal("1"), cache_read_mtok=None)
    listed(genai.ModelInfo(id="a", match=genai.ClauseEquals("a"), prices=prices))
    for _ in ("made", "read"):
        found = PriceList(Cache(tmp_path)).prices("anthropic", "a", DAY)
        assert found is not None
        expected = (Tier(-1, Decimal("0.10")), Tier(20, Decimal("3.00")), Tier(500, Decimal("1E-7")))
        assert found.input == expected
        assert (found.cache_read, found.cache_write) == ((), ())


def test_the_latest_started_price_or_the_first(listed: Callable[..., None], tmp_path: Path) -> None:
    dated = [(date(2025, 5, 1), "1"), (date(2025, 3, 1), "2"), (date(2026, 3, 1), "3")]
    prices = [genai.ConditionalPrice(genai.StartDateConstraint(start), prices=price(usd)) for start, usd in dated]
    model = genai.ModelInfo(id="a", match=genai.ClauseEquals("a"), prices=prices)
    listed(model)
    ours = PriceList(Cache(tmp_path))
    for day in (date(2000, 1, 1), date(2025, 3, 1), date(2025, 4, 30), date(2025, 5, 1), date(2026, 2, 28), date.max):
        found = ours.prices("anthropic", "a", day)
        assert found is not None
        assert found.input[0].usd == model.get_prices(datetime.combine(day, time())).input_mtok


def test_a_price_that_depends_on_the_hour_is_unknown(listed: Callable[..., None], tmp_path: Path) -> None:
    night = genai.TimeOfDateConstraint(time(1), time(5))
    prices = [genai.ConditionalPrice(prices=price("2")), genai.ConditionalPrice(night, prices=price("1"))]
    listed(genai.ModelInfo(id="a", match=genai.ClauseEquals("a"), prices=prices))
    assert PriceList(Cache(tmp_path)).prices("anthropic", "a", DAY) is None
