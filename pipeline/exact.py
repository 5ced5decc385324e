"""Exact sizes of texts, by the token counting endpoint of the Anthropic API. The only module that uses the network.

The lake keeps no texts, only their hashes. So the transcripts that hold a wanted text are parsed once more, and the
clients' configuration is read once more for a text that stands in none; what was asked for is held in memory, sent,
and forgotten. What comes back is kept in the table `exact_counts` by hash and model, so that nothing is counted twice.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pipeline import clients, inventory
from pipeline.client import Home, Report, Source
from pipeline.errors import AgentLensError
from pipeline.jsonl import open_source
from pipeline.lake import PackWriter, by_month, lock, sweep
from pipeline.manifest import Manifest
from pipeline.schema import ExactCount
from pipeline.warehouse import connect, refresh

if TYPE_CHECKING:
    import anthropic

KEY = "ANTHROPIC_API_KEY"
BASE_URL = "ANTHROPIC_BASE_URL"
DEFAULT_URL = "https://api.anthropic.com"
RETRIES = 4  # of the SDK, with its own back-off
TIMEOUT_SECONDS = 60.0
KEPT_AT_ONCE = 200  # counts that a killed run may lose
_LETTER = "x"  # what a request holds when its frame is measured: one token

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """The lake to count for, the home whose configuration may hold a text, and the environment that holds the key.

    `wait_seconds` is for the lake's lock.
    """

    lake: Path
    home: Home
    machine: str
    environ: Mapping[str, str]
    clients: tuple[str, ...] = ()  # empty: all
    wait_seconds: float = 300.0


@dataclass(slots=True)
class Wanted:
    """A text and a model that carried it, and the text itself if it still stands on this machine."""

    sha256: str
    model_id: str
    client: str
    text: str | None = None


class CountError(AgentLensError):
    """A count that cannot be had. Fact: ends, what else is in vain after it: one text, a model, or all."""


def count(options: Options, note: Say, warn: Say) -> int:
    """Count what is not counted yet, and keep it in the lake; returns how many texts were counted.

    Whatever is in the way of it is told in one line, and the sizes stay estimated. Raises LakeError only.
    """
    wanted = find_wanted(options)
    if not wanted:
        note("exact: nothing new to count")
        return 0
    read_texts(options, wanted)
    lost = len({one.sha256 for one in wanted if one.text is None})
    if lost:
        where = "in a transcript or in the configuration"
        warn(f"exact: {lost} texts do not stand {where} on this machine any more; they stay estimated")
    found = [one for one in wanted if one.text is not None and _is_sendable(one.text)]
    if not found:
        return 0
    try:
        counter = Counter(options.environ)
    except CountError as error:
        warn(f"exact: {error}; {_amount(found)} not sent, their sizes stay estimated")
        return 0
    note(f"exact: sending {_amount(found)} to {counter.host}")
    with closing(counter):
        done = _count_all(options, counter, found, warn)
    left = len(found) - done
    note(f"exact: {done} counted with {counter.requests} requests" + (f", {left} stay estimated" if left else ""))
    return done


def _amount(wanted: Sequence[Wanted]) -> str:
    texts, models = len({one.sha256 for one in wanted}), len({one.model_id for one in wanted})
    return f"{texts} texts of skills and instruction files for {models} models ({len(wanted)} counts)"


# --- what is to be counted -------------------------------------------------------------------------------------------


def find_wanted(options: Options) -> list[Wanted]:
    """The texts that are not counted for a model that carried them, model by model."""
    with connect(options.lake) as warehouse:
        rows = warehouse.sql("select client, model_id, sha256 from int.uncounted_texts order by all")
        found = [Wanted(**row) for row in rows.table().to_pylist()]
    return [one for one in found if not options.clients or one.client in options.clients]


def read_texts(options: Options, wanted: Sequence[Wanted]) -> None:
    """Fill in the texts, from as few of this machine's transcripts as hold them, else from the configuration."""
    texts: dict[str, str | None] = {one.sha256: None for one in wanted}
    holders: dict[tuple[str, str], set[str]] = defaultdict(set)
    with connect(options.lake) as warehouse:
        rows = warehouse.sql(
            "select distinct sources.machine, sources.client, sources.path, events.sha256 "
            "from lake.context_events as events inner join lake.sources as sources "
            "on events.source_id = sources.source_id "
            "inner join int.uncounted_texts as wanted on events.sha256 = wanted.sha256 "
            "where sources.gone_at is null"
        )
        for row in rows.table().to_pylist():
            if row["machine"] == options.machine:
                holders[row["client"], row["path"]].add(row["sha256"])
    for (client, path), held in sorted(holders.items(), key=lambda holder: (-len(holder[1]), holder[0])):
        if any(text in texts and texts[text] is None for text in held):
            _read_file(client, Path(path), texts)
    state = Manifest(options.lake, options.machine).read()
    inventory.show_texts(options.home, options.clients or clients.names(), state.meta if state else {}, texts)
    for one in wanted:
        one.text = texts[one.sha256]


def _read_file(client: str, path: Path, texts: dict[str, str | None]) -> None:
    """Parse a transcript for its texts alone. What is wrong with it was told when it was ingested."""
    try:
        status = path.stat()
        with open_source(path) as stream:
            source = Source(path, "", status.st_size, status.st_mtime_ns)
            clients.load(client).parse(source, stream, Report(texts=texts))
    except Exception:  # noqa: BLE001 - as in ingest, no input may end a run; what it holds is told to be missing
        return


# --- counting --------------------------------------------------------------------------------------------------------


class Counter:
    """The endpoint. Raises CountError where the SDK or the key is missing, and for what cannot be counted."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        key = environ.get(KEY, "").strip()
        url = environ.get(BASE_URL, "").strip() or DEFAULT_URL
        self.requests = 0
        self.host = _host(url)
        self._frames: dict[str, int] = {}
        self._key = key
        if not key:
            raise CountError(f"{KEY} is not set", ends="all")
        if not (key.isascii() and key.isprintable()):
            raise CountError(f"{KEY} holds what no key holds", ends="all")
        try:
            import anthropic
        except ImportError:
            hint = "install it with: pip install 'agentlens-pipeline[exact]'"
            raise CountError("the package anthropic is not installed", hint=hint, ends="all") from None
        self._sdk = anthropic
        try:
            self._client: anthropic.Anthropic = anthropic.Anthropic(
                api_key=key,
                base_url=url,
                max_retries=RETRIES,
                timeout=TIMEOUT_SECONDS,
                open_telemetry=False,  # nothing of this goes anywhere else
            )
        except Exception as error:  # an address that is none; the SDK's HTTP library has errors of its own
            raise CountError(f"{BASE_URL} cannot be used: {self._words(error)}", ends="all") from error

    def close(self) -> None:
        self._client.close()

    def size(self, text: str, model_id: str) -> int:
        """Tokens of a text for a model: those of a request that holds it, without those of the request's frame."""
        if model_id not in self._frames:
            self._frames[model_id] = self._frame(model_id)
        size = self._ask(text, model_id) - self._frames[model_id]
        if size < 0:
            raise CountError(f"the answer for {model_id} is impossible", ends="model")
        return size

    def _frame(self, model_id: str) -> int:
        """What the endpoint counts for a request beside the text in it. A text of one letter is one token."""
        try:
            return self._ask(_LETTER, model_id) - 1
        except CountError as error:
            if error.ends == "text":  # not the text's fault
                raise CountError(error.message, ends="model") from error
            raise

    def _ask(self, text: str, model_id: str) -> int:
        sdk = self._sdk
        self.requests += 1
        try:
            answer: Any = self._client.messages.count_tokens(
                model=model_id, messages=[{"role": "user", "content": text}]
            )
        except sdk.APIStatusError as error:
            raise _refusal(error.status_code, model_id, self._words(error)) from error
        except sdk.APITimeoutError as error:
            raise CountError(f"{self.host} does not answer", ends="all") from error
        except sdk.APIConnectionError as error:
            cause = self._words(error.__cause__ or error)
            raise CountError(f"{self.host} cannot be reached: {cause}", ends="all") from error
        except (sdk.AnthropicError, ValueError, TypeError) as error:  # an answer, or a key, of a wrong form
            raise CountError(f"{self.host} cannot be asked: {self._words(error)}", ends="all") from error
        tokens = getattr(answer, "input_tokens", None)
        if type(tokens) is not int:
            raise CountError(f"{self.host} does not answer as the Anthropic API does", ends="all")
        return tokens

    def _words(self, error: BaseException) -> str:
        """What an error says, the API's own words if it has some, in a line, and never the key."""
        said = getattr(error, "api_message", None) or str(error) or type(error).__name__
        return " ".join(str(said).split()).replace(self._key, "...")[:200]


def _host(url: str) -> str:
    """Whom an address is of, without what else may stand in it, such as a password."""
    try:
        return urlsplit(url).hostname or "no host"
    except ValueError:
        return "no host"


def _refusal(status: int, model_id: str, message: str) -> CountError:
    """What an answer that is none means for what else is to be counted."""
    if status == 401:
        return CountError(f"the key in {KEY} is refused: {message}", ends="all")
    if status == 429:
        return CountError(f"the rate limit is reached: {message}", hint="run it again later for the rest", ends="all")
    if status in {403, 404}:
        return CountError(f"the model {model_id} is refused: {message}", ends="model")
    if status in {400, 413, 422}:
        return CountError(f"{model_id}: {message}", ends="text")
    return CountError(f"the API fails with status {status}: {message}", ends="all")


def _is_sendable(text: str) -> bool:
    """The API takes no blank text, and a lone surrogate is in no UTF-8."""
    return bool(text.strip()) and not re.search("[\ud800-\udfff]", text)


def _count_all(options: Options, counter: Counter, wanted: Sequence[Wanted], warn: Say) -> int:
    """Count text by text; what is counted is kept, however it ends."""
    done: list[ExactCount] = []
    kept = 0
    refused: set[str] = set()
    unfit: list[CountError] = []
    owner = wanted[0].client
    try:
        for one in wanted:
            if one.model_id in refused or one.text is None:
                continue
            if one.client != owner or len(done) - kept >= KEPT_AT_ONCE:
                _keep(options, owner, done[kept:])
                kept, owner = len(done), one.client
            try:
                tokens = counter.size(one.text, one.model_id)
            except CountError as error:
                if error.ends == "all":
                    warn(f"exact: {error}; what is not counted stays estimated")
                    break
                if error.ends == "model":
                    refused.add(one.model_id)
                    warn(f"exact: {error}; its sizes stay estimated")
                else:
                    unfit.append(error)
                continue
            now = time.time_ns() // 1000
            done.append(ExactCount(sha256=one.sha256, model_id=one.model_id, tokens=tokens, counted_at=now))
    finally:
        _keep(options, owner, done[kept:])
    if unfit:
        warn(f"exact: {len(unfit)} counts refused, the first one: {unfit[0]}; these sizes stay estimated")
    return len(done)


def _keep(options: Options, client: str, rows: Sequence[ExactCount]) -> None:
    """Put counts into the lake, as one step."""
    if not rows:
        return
    manifest = Manifest(options.lake, options.machine)
    with lock(options.lake, options.wait_seconds):
        manifest.recover()  # a journal that a dead run left is finished before a new one is begun
        sweep(options.lake, options.machine)
        writer = PackWriter(options.lake, client, options.machine, 0, frozenset())
        try:
            writer.append("exact_counts", by_month("exact_counts", rows, {}))
        except BaseException:
            writer.abandon()
            raise
        manifest.commit([], writer.moves)
    refresh(options.lake, options.wait_seconds)
