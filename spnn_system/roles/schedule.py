"""The epochs and steps of a run, as the coordinator lets them begin."""

from collections.abc import Callable, Iterator

from spnn_system.roles.control_channel import ControlChannel
from spnn_system.run.plan import Plan, Progress
from spnn_system.transport.endpoint import Endpoint


class Schedule:
    """Leads one role through its plan; the role's progress counts the steps."""

    def __init__(self, plan: Plan, endpoint: Endpoint, control: ControlChannel, progress: Progress):
        self.plan, self._endpoint, self._control, self._progress = plan, endpoint, control, progress

    def expect(self, n_test: int) -> None:
        """From now on messages of steps that this run does not have are refused; n_test: rows to
        test on.
        """
        self._endpoint.turn(0, self.plan.last_step + 1 + len(self.plan.sizes(n_test)))

    def epochs(self, reached: Callable[[], bool] = lambda: False) -> Iterator[int]:
        """Each epoch that the coordinator lets begin (or go on after a resumption), from 0; ends
        when it says test.

        reached: asked at the end of every epoch: whether the label holder's rule to stop holds.
        """
        while True:
            self._control.tell("ready", step=self._progress.step, reached=bool(reached()))
            if self._control.order("go", "test")["kind"] == "test":
                return
            yield self._progress.step // self.plan.training.steps_per_epoch

    def steps(self) -> Iterator[int]:
        """The batches of an epoch that were not gone through, from 0; the step of each is the
        present one while it runs.
        """
        n_steps = self.plan.training.steps_per_epoch
        for batch in range(self._progress.step % n_steps, n_steps):
            self._progress.step += 1
            yield batch

    @property
    def saves_now(self) -> bool:
        """Whether every role writes a checkpoint after the present step."""
        return self.plan.saves_after(self._progress.step)
