"""An endpoint for tests on simulated time: whoever it calls does not answer."""

from spnn_system.transport.endpoint import Silent


class Unheard:
    """An endpoint whose calls fail; it keeps how long they were given.  busy: what each call
    takes.
    """

    def __init__(self, busy=lambda: None):
        self.given, self.busy, self.stopped = [], busy, []

    def call(self, role, method, said, *, timeout=None, until=None):
        self.given.append(timeout)
        self.busy()
        raise Silent(role, "no")

    def check(self):
        pass

    def stop(self, reason):
        self.stopped.append(reason)
