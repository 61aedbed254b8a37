"""The messages of a run sent again, over real shaped links: as many, as large and in the same
order, but nothing in them.

For methods that have no roles of their own (`secureml.SecureML`, `rivals.SplitNN`) this is how
their network time is measured; for the others it is what the cost model is held against. Nobody
computes anything here.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier
from time import perf_counter

import pandas as pd

from ppkit.lifeline import VanishingFolder
from spnn_system.cost_model import online_seconds, part
from spnn_system.transport import certificates
from spnn_system.transport.addresses import free_ports
from spnn_system.transport.endpoint import Endpoint
from spnn_system.transport.shaping import Links

# seconds of silence, beyond three times what the model says, that end a replay
PATIENCE = 30.0
# bits per second that a link without shaping has at least
FAST = 1e9
_OPEN, _RUN = "open the link", "replay"


def replay(
    table: pd.DataFrame,
    *,
    bandwidth: float = 0.0,
    latency: float = 0.0,
    log: Callable[[dict], None] | None = None,
) -> float:
    """Seconds that the online messages of a table take over the transport, every party in a thread
    of this process.

    A party sends what it has to send in a round, then waits for what it gets in that round, and
    goes on to its next one.
    Links are opened before the clock starts; it stops when the last party has its last message.
    What gRPC and TLS cost the processor is in it: beside `cost_model.online_seconds` the seconds of
    an unshaped replay of ten steps or more count as computing (in fewer, links are still cold).

    table: as of `Transcript.table` or `cost_model.epoch_table`; only its online part is sent.
    bandwidth: bits per second of each directed link, >= 0; 0: unshaped.
    latency: seconds one way, >= 0.
    log: gets what `Endpoint` logs, one dict a message, those that open the links too (of step 0).
    Returns seconds > 0, 0 if there is nothing to send.  ValueError for numbers that cannot be, and
    what an Endpoint raises.
    """
    rows = part(table, "online")
    if rows.empty:
        return 0.0
    plans = _plans(rows)
    timeout = PATIENCE + 3 * online_seconds(rows, bandwidth=bandwidth or FAST, latency=latency)
    with VanishingFolder("ppkit-replay-") as folder, ExitStack() as stack:
        certificates.make(Path(folder), list(plans))
        addresses = {
            party: f"127.0.0.1:{port}" for party, port in zip(plans, free_ports(len(plans)))
        }
        links = Links(bandwidth=bandwidth, latency=latency, timeout=timeout)
        ends = {
            party: stack.enter_context(
                Endpoint(party, addresses, run=_RUN, certificates=folder, links=links, log=log)
            )
            for party in plans
        }
        ready, failures = Barrier(len(plans)), []
        with ThreadPoolExecutor(len(plans)) as pool:
            times = [
                pool.submit(_play, party, plan, ends, ready, failures)
                for party, plan in plans.items()
            ]
        if failures:
            raise failures[0]
    begun, ended = zip(*(each.result() for each in times))
    return max(ended) - min(begun)


def _plans(rows: pd.DataFrame) -> dict[str, list[tuple[list, list]]]:
    """What every party does, round by round: it sends all (receiver, name, bytes, step), then waits
    for all (sender, name, step).
    """
    parties = dict.fromkeys([*rows["sender"], *rows["receiver"]])
    plans = {party: [] for party in parties}
    for _, messages in rows.groupby("round"):
        now = {party: ([], []) for party in parties}
        for m in messages.itertuples():
            now[m.sender][0].append((m.receiver, m.name, int(m.n_bytes), int(m.step)))
            now[m.receiver][1].append((m.sender, m.name, int(m.step)))
        for party, (sends, waits) in now.items():
            if sends or waits:
                plans[party].append((sends, waits))
    return plans


def _play(
    me: str,
    plan: list[tuple[list, list]],
    ends: Mapping[str, Endpoint],
    ready: Barrier,
    failures: list[BaseException],
) -> tuple[float, float] | None:
    """One party: opens its links, waits for the others, then goes through its rounds.  Returns when
    it began and ended.

    The first that fails is kept in failures, and stops the others.
    """
    end = ends[me]
    try:
        for receiver in dict.fromkeys(receiver for sends, _ in plan for receiver, *_ in sends):
            end.send(receiver, _OPEN, b"", step=0)
        for sender in dict.fromkeys(sender for _, waits in plan for sender, *_ in waits):
            end.receive(sender, _OPEN, step=0)
        end.flush()
        ready.wait()
        begun = perf_counter()
        for sends, waits in plan:
            for receiver, name, n_bytes, step in sends:
                end.send(receiver, name, bytes(n_bytes), step=step)
            for sender, name, step in waits:
                end.receive(sender, name, step=step)
        ended = perf_counter()
        end.flush()
        return begun, ended
    except BaseException as error:
        failures.append(error)
        ready.abort()
        for other in ends.values():
            other.stop(f"{me} failed in the replay: {error}")
        return None
