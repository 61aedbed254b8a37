"""What a role says to the person who started it: sentences on stderr."""

import sys
from contextlib import suppress

from spnn_system.config import Config


def say(sentence: str) -> None:
    """One line, "ppkit: ..."; nothing for no sentence, or where nobody listens any more."""
    if sentence:
        with suppress(OSError):
            print(f"ppkit: {sentence}", file=sys.stderr, flush=True)


def notices(config: Config) -> list[str]:
    """What every role says of its secrets when it starts, where there is something to say."""
    said = []
    if config.protocol.secrets == "teaching":
        said.append(f"secrets: {config.protocol.origin}")
    elif config.network.record:
        said.append(
            "record = true: received.frames keeps all that came here, seeds of masks too: remove "
            "it after the lesson"
        )
    return said
