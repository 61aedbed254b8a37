"""The messages of a run sent again, over real shaped links: as many, as large and in the same
order, but nothing in them.

For methods that have no roles of their own (`secureml.SecureML`, `rivals.SplitNN`) this is how
their network time is measured; for the others it is what the cost model is held against. Nobody
computes anything here.
"""

from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier
from time import perf_counter

import pandas as pd

from ppkit.process_tree import VanishingFolder
from spnn_system.cost_model import online_seconds, part
from spnn_system.transport import certificates
from spnn_system.transport.addresses import free_addresses
from spnn_system.transport.endpoint import Endpoint
from spnn_system.transport.listener import Log
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
    log: Log = lambda line: None,
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
    links = Links(bandwidth=bandwidth, latency=latency, timeout=timeout)
    with VanishingFolder("ppkit-replay-") as folder, ExitStack() as stack:
        certificates.make(Path(folder), list(plans))
        addresses = dict(zip(plans, free_addresses(len(plans))))
        ends = [
            Endpoint(party, addresses, run=_RUN, certificates=folder, links=links, log=log)
            for party in plans
        ]
        for end in ends:
            stack.enter_context(end)
        ready = Barrier(len(plans))
        with ThreadPoolExecutor(len(plans)) as pool:
            parties = [pool.submit(_play, end, plans[end.me], ready) for end in ends]
            ended = wait(parties, return_when=FIRST_EXCEPTION).done
            for failed in (party for party in ended if party.exception()):
                ready.abort()
                for end in ends:
                    end.stop("another party of the replay failed")
                failed.result()
    times = [party.result() for party in parties]
    return max(end for _, end in times) - min(begin for begin, _ in times)


@dataclass
class Round:
    """sends: (receiver, name, bytes, step) of each message of a party.  waits: (sender, name,
    step) of each message that it then waits for.
    """

    sends: list[tuple[str, str, int, int]] = field(default_factory=list)
    waits: list[tuple[str, str, int]] = field(default_factory=list)


def _plans(rows: pd.DataFrame) -> dict[str, list[Round]]:
    """What every party does, round by round."""
    plans: dict[str, list[Round]] = {party: [] for party in [*rows["sender"], *rows["receiver"]]}
    for _, messages in rows.groupby("round"):
        for plan in plans.values():
            plan.append(Round())
        for m in messages.itertuples():
            plans[m.sender][-1].sends.append((m.receiver, m.name, int(m.n_bytes), int(m.step)))
            plans[m.receiver][-1].waits.append((m.sender, m.name, int(m.step)))
    return plans


def _play(end: Endpoint, plan: list[Round], ready: Barrier) -> tuple[float, float]:
    """One party: opens its links, waits for the others, then goes through its rounds.  Returns when
    it began and ended.
    """
    for receiver in {sent[0] for turn in plan for sent in turn.sends}:
        end.send(receiver, _OPEN, b"", step=0)
    for sender in {awaited[0] for turn in plan for awaited in turn.waits}:
        end.receive(sender, _OPEN, step=0)
    end.flush()
    ready.wait()
    begun = perf_counter()
    for turn in plan:
        for receiver, name, n_bytes, step in turn.sends:
            end.send(receiver, name, bytes(n_bytes), step=step)
        for sender, name, step in turn.waits:
            end.receive(sender, name, step=step)
    ended = perf_counter()
    end.flush()
    return begun, ended
