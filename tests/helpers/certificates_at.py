"""Certificates as if they had been made at another time."""

from datetime import datetime
from unittest import mock

from spnn_system.transport import certificates


def made_at(when: datetime, folder, roles=("A", "Bank B")) -> None:
    with mock.patch.object(certificates, "datetime") as clock:
        clock.now.return_value = when
        certificates.make(folder, roles)
