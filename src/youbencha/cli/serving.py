"""Parse the options of `yb gateway`: keys, budgets, prices, and upstreams."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import re
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import typer

from youbencha.cli import startup
from youbencha.cli.interrupts import handled_by_loop
from youbencha.cli.options import cassette_given
from youbencha.errors import YouBenchaError
from youbencha.gateway.access import Provider
from youbencha.gateway.budget import Account, Caps
from youbencha.gateway.call import Call, Labels
from youbencha.gateway.cassette.cassette import Cassette
from youbencha.gateway.gateway import Gateway
from youbencha.gateway.keys import KeyTotals, ModelTotals, VirtualKey
from youbencha.gateway.ledger import Ledger
from youbencha.gateway.prices import Prices
from youbencha.gateway.upstreams import Upstream, find_upstreams, key_names, read_secrets, same_for_all
from youbencha.process import Redactor
from youbencha.scripted_model import RecordedRequest, Script, ScriptedModel, load_script
from youbencha.spec.gateway import GatewaySpec, ModelPrice, UpstreamSpec, UpstreamSpecs
from youbencha.text import format_count, format_usd, plural
from youbencha.transcript.line_writer import LineWriter
from youbencha.usage import Tokens

DEFAULT_KEY = "default"

NO_KEY = "no-key"
"""Sent to a server without a known key: most local servers accept any key, and some require one."""

_KEY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LIKE_A_KEY = re.compile(r"(?:sk|pk|rk)[-_]|AIza|eyJ")
_DOLLARS = re.compile(r"\d{1,12}(?:\.\d{1,12})?|\.\d{1,12}", re.ASCII)

ByProvider = dict[Provider | None, str]
"""The value for None applies to every API without its own value."""

_PUBLIC: Mapping[str, Provider] = {
    "api.anthropic.com": "anthropic",
    "api.openai.com": "openai",
    "generativelanguage.googleapis.com": "gemini",
}

_PROVIDERS: tuple[Provider, ...] = ("anthropic", "openai", "gemini")
_NAMED = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)=(.*)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse_keys(values: Sequence[str]) -> dict[str, Caps]:
    """Parse `--key NAME[=BUDGET_USD]`, in the order of the command line."""
    keys: dict[str, Caps] = {}
    for value in values or [DEFAULT_KEY]:
        name, equals, budget = value.partition("=")
        if _LIKE_A_KEY.match(name):  # not shown in the message: it may be a real key
            raise _invalid_option(
                "KEY", "--key takes a name, but this looks like a key", "Choose any name, for example --key alice=2.5."
            )
        if not _KEY_NAME.fullmatch(name):
            raise _invalid_option(
                "KEY", f"--key {value}: not a valid name", "Use up to 64 letters, digits, `.`, `_` and `-`."
            )
        if name in keys:
            raise _invalid_option("KEY", f"--key {name} is given twice", "Give each key a different name.")
        keys[name] = Caps(usd=parse_dollars("--key", value, budget) if equals else None)
    return keys


def parse_dollars(option: str, value: str, amount: str) -> Decimal:
    if not _DOLLARS.fullmatch(amount):
        raise _invalid_option("BUDGET", f"{option} {value} is not an amount of dollars.", "Write it as 2 or 0.25.")
    return Decimal(amount)


def parse_prices(values: Sequence[str]) -> dict[str, ModelPrice]:
    """Parse `--price MODEL=IN/OUT[/CACHE_READ/CACHE_WRITE]`. The name of a model may contain `=` and `/`."""
    prices: dict[str, ModelPrice] = {}
    for value in values:
        model, _, amounts = value.rpartition("=")
        parts = amounts.split("/")
        if not model or len(parts) not in (2, 4) or not all(map(_DOLLARS.fullmatch, parts)):
            hint = "Write MODEL=IN/OUT or MODEL=IN/OUT/CACHE_READ/CACHE_WRITE, in dollars per million tokens."
            raise _invalid_option("PRICE", f"--price {value}: not a price", hint)
        if model in prices:
            raise _invalid_option("PRICE", f"--price {model} is given twice", "Give each model one price.")
        names = ("input", "output", "cache_read", "cache_write")
        prices[model] = ModelPrice(**dict(zip(names, map(float, parts), strict=False)))
    return prices


def _invalid_option(what: str, message: str, hint: str) -> YouBenchaError:
    return YouBenchaError(f"{what}_INVALID", message, hint=hint)


def load_secrets(path: Path) -> dict[str, str]:
    try:
        return read_secrets(path)
    except YouBenchaError as error:
        if error.code != "SECRETS_FILE_UNREADABLE":
            raise
        raise YouBenchaError(error.code, error.message, hint="--secrets takes a file of NAME=VALUE lines.") from error


def parse_upstreams(urls: Sequence[str], key_envs: Sequence[str], env: Mapping[str, str]) -> dict[Provider, Upstream]:
    """Parse `--upstream` and `--upstream-key-env`. Without any `--upstream`, use the environment."""
    url_of = _read_urls(urls)
    key_env_of = _read_key_envs(key_envs, url_of, env)
    specs = {
        provider: UpstreamSpec(url=url_of.get(provider) or url_of.get(None), key_env=key_env_of.get(provider))
        for provider in _PROVIDERS
    }
    known = find_upstreams(GatewaySpec(upstreams=UpstreamSpecs(**specs)), env)
    if not url_of:
        if not known:
            raise _no_key(_PROVIDERS)
        return known
    upstreams: dict[Provider, Upstream] = {}
    for provider, spec in specs.items():
        if spec.url is None:
            continue
        if provider not in known and _host(spec.url) in _PUBLIC:
            raise _no_key([provider])
        upstreams[provider] = known.get(provider) or same_for_all(spec.url, NO_KEY)[provider]
    return upstreams


def _read_urls(values: Sequence[str]) -> ByProvider:
    urls: ByProvider = {}
    for value in values:
        provider, url = _split("--upstream", value)
        if "@" in url:  # not shown in the message: it may be a key
            raise _invalid_upstream(
                "--upstream: the URL must not contain a user or a password", "Set the key in the environment."
            )
        host = _host(url)
        if host is None:
            raise _invalid_upstream(
                f"--upstream {value}: not a URL", "Write http://HOST:PORT or, for one API, anthropic=https://…"
            )
        # A provider's public address gets only the key of that provider.
        _set_once(urls, provider or _PUBLIC.get(host), url, "--upstream")
    return urls


def _host(url: str) -> str | None:
    """Return the host of a base URL; None if it is not a valid one."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and parts.port != 0 and not (parts.query or parts.fragment)
    except ValueError:
        return None
    return parts.hostname if is_valid and not re.search(r"\s", url) else None


def _read_key_envs(values: Sequence[str], url_of: ByProvider, env: Mapping[str, str]) -> ByProvider:
    names: ByProvider = {}
    for value in values:
        provider, name = _split("--upstream-key-env", value)
        if not _VARIABLE.fullmatch(name):
            raise _invalid_upstream(
                f"--upstream-key-env {value}: not the name of a variable",
                "Give the name of the variable, not the key itself.",
            )
        if not env.get(name, "").strip():
            raise YouBenchaError(
                "GATEWAY_KEY_MISSING",
                f"--upstream-key-env: {name} is not set",
                hint=f"Export {name}, or add it to the file given with --secrets.",
            )
        for one in [provider] if provider else _providers_of_key(url_of):
            _set_once(names, one, name, "--upstream-key-env")
    return names


def _providers_of_key(url_of: ByProvider) -> list[Provider]:
    """Return the APIs that a key without a name is for. They must be clear, so that no key goes to another server."""
    if None in url_of:
        return [provider for provider in _PROVIDERS if provider not in url_of]
    named = [provider for provider in url_of if provider]
    if len(named) == 1:
        return named
    raise _invalid_upstream(
        "--upstream-key-env: the API is missing", "Write anthropic=NAME, openai=NAME or gemini=NAME."
    )


def _split(option: str, value: str) -> tuple[Provider | None, str]:
    named = _NAMED.fullmatch(value)
    if named is None:
        return None, value
    provider = next((provider for provider in _PROVIDERS if provider == named[1]), None)
    if provider is None:
        raise _invalid_upstream(f"{option} {named[1]}=…: unknown API", f"Use one of {', '.join(_PROVIDERS)}.")
    return provider, named[2]


def _set_once(values: ByProvider, provider: Provider | None, value: str, option: str) -> None:
    if provider in values:
        raise _invalid_upstream(
            f"{option} is given twice{f' for {provider}' if provider else ''}", "Give one for each API."
        )
    values[provider] = value


def _no_key(providers: Iterable[Provider]) -> YouBenchaError:
    names = ", ".join(key_names(provider)[0] for provider in providers)
    return YouBenchaError(
        "GATEWAY_KEY_MISSING",
        "The gateway has no key to forward requests with.",
        hint=f"Export {names}, or give a file with --secrets, or a server that needs no key with --upstream.",
    )


def _invalid_upstream(message: str, hint: str) -> YouBenchaError:
    return YouBenchaError("UPSTREAM_INVALID", message, hint=hint)


_MAX_WAITING = 1 << 20
_LAST_WORDS_S = 2.0


class Address(NamedTuple):
    host: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"


def address_given(written: str) -> Address:
    host, _, port = written.rpartition(":")
    if not host.strip("[]") or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise YouBenchaError("ADDRESS_INVALID", f"--listen {written} is not an address.", hint="Write HOST:PORT.")
    return Address(host.strip("[]"), int(port))


def serve_until_stopped(work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run `work` until Ctrl-C, SIGTERM or SIGHUP: then its event is set, and it must end."""
    startup.loaded()
    with suppress(KeyboardInterrupt):  # Ctrl-C on Windows
        asyncio.run(_with_signals(work))


async def _with_signals(work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    stop = asyncio.Event()
    with handled_by_loop(lambda _: stop.set()):
        await work(stop)


class StderrWriter:
    """Writes lines to standard error in a thread, so that a slow or closed reader does not delay or end the server."""

    def __init__(self) -> None:
        self._writer: LineWriter | None = None
        with suppress(OSError, ValueError, AttributeError):  # it was closed before the start
            # A separate descriptor: Python's stream has a lock, which a write that hangs would hold until the end.
            self._writer = LineWriter(
                os.dup(sys.stderr.fileno()), max_waiting=_MAX_WAITING, dropped_line=_dropped_lines
            )

    def say(self, line: str) -> None:
        if self._writer is not None:
            self._writer.put(f"{line}\n".encode(errors="replace"))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close(_LAST_WORDS_S)


def _dropped_lines(number: int) -> bytes:
    return f"({plural(number, 'line')} left out)\n".encode()


_INVALID_KEY = frozenset({"key_missing", "key_unknown", "key_expired", "key_foreign"})
_KINDS = ("in", "out", "cache read", "cache write")


class ServeOptions(NamedTuple):
    address: Address
    upstreams: Mapping[Provider, Upstream]
    keys: Mapping[str, Caps]
    total: Caps
    prices: Prices
    ledger: Path | None
    cassette: Cassette | None
    redactor: Redactor
    quiet: bool


async def serve(options: ServeOptions, stop: asyncio.Event) -> None:
    """Serve until `stop` is set."""
    with closing(StderrWriter()) as lines, Ledger(options.ledger) as ledger:
        printer = _CallPrinter(options, lines)
        gateway = Gateway(
            upstreams=options.upstreams,
            prices=options.prices,
            ledger=ledger,
            cassette=options.cassette,
            caps=options.total,
            host=options.address.host,
            port=options.address.port,
            on_call=printer.print_call,
            with_metrics=True,
        )
        async with gateway:
            await gateway.ready()
            secrets = {name: gateway.issue(Labels(name), caps=caps).key for name, caps in options.keys.items()}
            printer.keys = {name: key for name, secret in secrets.items() if (key := gateway.keys.find(secret, None))}
            if not options.address.is_local:
                lines.say(f"warning: {gateway.url} can be reached from other machines; its keys spend your money")
            print(json.dumps({"url": gateway.url, "keys": secrets}), flush=True)
            try:
                await stop.wait()
            finally:
                for secret in secrets.values():
                    gateway.end(secret)
                for key in printer.keys.values():
                    await gateway.settled(key)
                if not options.quiet:
                    _print_summary(options, printer.keys, gateway, lines)


def _print_summary(
    options: ServeOptions, keys: Mapping[str, VirtualKey], gateway: Gateway, lines: StderrWriter
) -> None:
    for line in summary(keys, gateway.total, gateway.keys.refused):
        lines.say(line)
    if options.cassette is not None:
        lines.say(f"cassette {options.cassette.directory} · {options.cassette.recorded} recorded")
    for name, key in keys.items():
        if key.cassette and (why := key.cassette.doubts()):
            lines.say(f"warning: a replay of {name} may fail: {why}")
    if gateway.ledger.failure is not None:
        lines.say(f"warning: the ledger is incomplete: {gateway.ledger.failure}")


class _CallPrinter:
    """Prints a line for each request when it has ended."""

    def __init__(self, options: ServeOptions, lines: StderrWriter) -> None:
        self.keys: dict[str, VirtualKey] = {}
        self._options = options
        self._lines = lines

    def print_call(self, call: Call) -> None:
        if self._options.quiet:
            return
        key = self.keys.get(call.labels.key)
        spent = key.totals.total.cost_usd if key and call.error not in _INVALID_KEY else None
        text = format_call(call, spent)
        if key and call.error == "not_recorded" and key.mismatches:
            text += "\n" + key.mismatches[-1].text
        self._lines.say(self._options.redactor.text(printable(text)))


def format_call(call: Call, spent: Decimal | None) -> str:
    """The line for a request. `spent` is the cost of all calls of the key so far; None if that is unknown."""
    parts = [time.strftime("%H:%M:%S", time.localtime(call.at)), call.labels.key, call.model or "–"]
    if not call.billed or call.wire is None:
        parts.append(f"{call.method} {call.path}")
    parts.append("no answer" if call.status is None else str(call.status))
    if counts := _tokens(call.tokens):
        parts += [counts, "cost unknown" if call.cost_usd is None else _usd(call.cost_usd)]
    if spent is not None:
        parts.append(f"total {_usd(spent)}")
    parts += [word for word, is_so in (("partial", call.partial), ("replayed", call.replayed)) if is_so]
    return " · ".join([*parts, *([call.error] if call.error else [])])


def summary(keys: Mapping[str, VirtualKey], total: Account, without_valid_key: int) -> Iterator[str]:
    """Yield a line for each key, in the order of the command line, and one for the total."""
    for name, key in keys.items():
        yield " · ".join([name, *_figures(key.totals), *_left(key.account)])
    if left := _left(total):
        yield " · ".join(["all together", *left])
    if without_valid_key:
        verb = "was" if without_valid_key == 1 else "were"
        yield f"{plural(without_valid_key, 'request')} without a valid key {verb} refused"


def printable(text: str) -> str:
    """Replace control characters: clients choose models and paths, which must not send escapes to a terminal."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character == "\n" else "·" for character in text)


def _figures(totals: KeyTotals) -> list[str]:
    figures = [plural(totals.requests, "request")]
    if counts := _tokens(totals.total.tokens):
        figures += [f"at least {counts}" if totals.total.partial else counts, _cost(totals.total)]
    numbers = {"refused": totals.refused, "rate limited": totals.rate_limited, "not recorded": totals.unmatched}
    return figures + [f"{format_count(number)} {what}" for what, number in numbers.items() if number]


def _cost(total: ModelTotals) -> str:
    if total.cost_usd is None:
        return "cost unknown"
    known = _usd(total.cost_usd)
    return f"{known} and {plural(total.unpriced, 'request')} without a known price" if total.unpriced else known


def _left(account: Account) -> list[str]:
    """Return what is left of each cap. Cost that could not be measured counts as spent, as it does for the cap."""
    left = []
    if (most_usd := account.caps.usd) is not None:
        usd_left = most_usd - account.spent_usd - account.unseen_usd
        most = _usd(most_usd)
        left.append(f"{_usd(-usd_left)} over {most}" if usd_left < 0 else f"{_usd(usd_left)} of {most} left")
    if (most_tokens := account.caps.tokens) is not None:
        tokens_left = most_tokens - account.spent_tokens - account.unseen_tokens
        over = f"{format_count(-tokens_left)} tokens over {format_count(most_tokens)}"
        left.append(
            over if tokens_left < 0 else f"{format_count(tokens_left)} of {format_count(most_tokens)} tokens left"
        )
    return left


def _tokens(tokens: Tokens) -> str:
    """Return the known counts as text; empty if none is known."""
    known = ((kind, number) for kind, number in zip(_KINDS, tokens, strict=True) if number is not None)
    return ", ".join(f"{format_count(number)} {kind}" for kind, number in known)


def _usd(amount: Decimal) -> str:
    return format_usd(float(amount))


def gateway(
    listen: Listen = "127.0.0.1:0",
    upstream: UpstreamOption = None,
    upstream_key_env: UpstreamKeyEnv = None,
    secrets: Secrets = None,
    key: Key = None,
    budget_total: BudgetTotal = None,
    tokens_total: TokensTotal = None,
    price: Price = None,
    ledger: LedgerFile = None,
    record: Record = None,
    replay: Replay = None,
    cassette: CassetteDir = None,
    quiet: Quiet = False,
) -> None:
    """Serve a gateway that meters, caps, records and replays the requests of agents to their models.

    When ready, it prints its URL and its virtual keys as one line of JSON; then a line on stderr for each request.

    Example: `yb gateway --key alice=2.5 --key bob --ledger calls.jsonl`
    """
    address = address_given(listen)
    keys, prices = parse_keys(key or []), parse_prices(price or [])
    total_usd = None if budget_total is None else parse_dollars("--budget-total", budget_total, budget_total)
    cassette_spec = cassette_given(record, replay, cassette)
    env = {**os.environ, **(load_secrets(secrets) if secrets else {})}
    upstreams = {} if replay is not None else parse_upstreams(upstream or [], upstream_key_env or [], env)
    redactor = _redactor(env, upstreams)

    options = ServeOptions(
        address=address,
        upstreams=upstreams,
        keys=keys,
        total=Caps(total_usd, tokens_total),
        prices=Prices(prices),
        ledger=ledger,
        cassette=Cassette(Path(cassette_spec.dir), cassette_spec.mode, redactor=redactor) if cassette_spec else None,
        redactor=redactor,
        quiet=quiet,
    )
    serve_until_stopped(lambda stop: serve(options, stop))


def _redactor(env: Mapping[str, str], upstreams: Mapping[Provider, Upstream]) -> Redactor:
    """Return a redactor of the real keys. Virtual keys are always recognised by their prefix."""
    real = {f"{name}_KEY": upstream.key for name, upstream in upstreams.items() if upstream.key != NO_KEY}
    return Redactor.for_env(env, real)


Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Address to listen on. Port 0 picks a free port.")]

UpstreamOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[API=]URL",
        help="Server to forward requests to, for all APIs or for one: anthropic=URL, openai=URL, gemini=URL. "
        "Default: ANTHROPIC_BASE_URL, OPENAI_BASE_URL, GOOGLE_GEMINI_BASE_URL, or else the providers.",
    ),
]

UpstreamKeyEnv = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[API=]NAME",
        help="Variable with the real key, if not ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY.",
    ),
]

Secrets = Annotated[
    Path | None, typer.Option(help="File of NAME=VALUE lines with the real keys. Only you may have read access.")
]

Key = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME[=USD]",
        help="Name of a virtual key, and its budget. Can be repeated. Default: one key named default.",
    ),
]

BudgetTotal = Annotated[str | None, typer.Option(metavar="USD", help="Budget of all keys together.")]
TokensTotal = Annotated[int | None, typer.Option(metavar="N", min=0, help="Token limit of all keys together.")]

Price = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODEL=IN/OUT[/READ/WRITE]",
        help="Price of a model in dollars per million tokens; overrides the price list. Can be repeated. "
        "* in a model's name matches any text.",
    ),
]

LedgerFile = Annotated[Path | None, typer.Option(help="File to append a line of JSON to for each request.")]
Record = Annotated[Path | None, typer.Option(metavar="DIR", help="Record all answers into a cassette.")]
Replay = Annotated[Path | None, typer.Option(metavar="DIR", help="Answer from a cassette only.")]

CassetteDir = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Answer from a cassette; forward and record what it does not contain."),
]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no line for each request, and no summary.")]


def serve_script(
    script: Annotated[Path, typer.Argument(help="The script: what the model answers, turn by turn (YAML).")],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address to listen on. Port 0 picks a free port.")
    ] = "127.0.0.1:0",
    var: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Set the variable ${NAME}. Can be repeated.")
    ] = None,
) -> None:
    """Serve a scripted model with answers from a file, in the APIs of Anthropic, OpenAI and Gemini.

    Prints one line of JSON with its URL when it is ready, and one line on stderr for each request.
    """
    variables = dict(_variable(text) for text in var or [])
    address = address_given(listen)
    loaded = load_script(script, variables=variables)
    try:
        serve_until_stopped(lambda stop: _serve(loaded, variables, address, stop))
    except OSError as error:
        raise YouBenchaError(
            "SCRIPT_LISTEN_FAILED",
            f"Cannot listen on {listen}: {error.strerror or error}",
            hint="Choose another port with --listen, or let the system choose one: 127.0.0.1:0",
        ) from error


async def _serve(script: Script, variables: dict[str, str], address: Address, stop: asyncio.Event) -> None:
    model = ScriptedModel(script, variables=variables, host=address.host, port=address.port, on_request=_print_request)
    async with model:
        print(json.dumps({"url": model.url}), flush=True)
        await stop.wait()


def _print_request(request: RecordedRequest) -> None:
    print(describe(request), file=sys.stderr, flush=True)


def describe(request: RecordedRequest) -> str:
    what = request.kind if request.turn is None else f"turn {request.turn + 1}"
    if request.conversation is not None:
        what += f" of conversation {request.conversation + 1}"
    body = request.body if isinstance(request.body, dict) else {}
    details = [f"{request.method} {request.path}", str(request.status), what]
    details += [str(body["model"])] if "model" in body else []
    details += [f"{len(body['messages'])} messages"] if isinstance(body.get("messages"), list) else []
    return " · ".join(details)


def _variable(written: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not equals or not name.isidentifier():
        raise YouBenchaError("SCRIPT_INVALID_VARIABLE", f"--var {written} is not a variable.", hint="Write NAME=VALUE.")
    return name, value
