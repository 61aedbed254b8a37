"""A role that hears nothing of its coordinator, on simulated time."""

from network_runs import made, small_rows
from unheard import Unheard
from waiting import FAR, Simulated

from spnn_system.roles.party import Party


def a_role(tmp_path, clock, **settings):
    """Holder A before its hello, by a simulated clock."""
    one = Party(made(tmp_path / "it", small_rows(), **settings), "A", resume=False)
    one.control._clock = clock
    return one


def promised(sentence):
    """(the step it stopped at, the step it goes on from) that a sentence names."""
    words = sentence.replace(";", "").split()
    steps = [int(word) for before, word in zip(words, words[1:]) if before == "step"]
    assert "the run stops at step" in sentence and "--resume` goes on from step" in sentence
    return tuple(steps)


def test_a_role_that_hears_nothing_of_the_coordinator_stops_after_the_timeout(tmp_path):
    clock = Simulated()
    one = a_role(tmp_path, clock, timeout=2.0)
    one.control.endpoint = Unheard(lambda: setattr(clock, "time", clock.time + 0.75))
    one.progress.step, one.progress.last, one.control._saved = 7, 20, 4
    one.control.begin()
    one.control._beat.join(FAR)
    sentence = one.control.sentence
    assert sentence.startswith("the coordinator gave no sign of life for 2.0 s: ") and promised(
        sentence
    ) == (7, 4)
    assert one.control.endpoint.given == [0.5] * 3 and one.control.endpoint.stopped == [sentence]


def test_a_role_with_an_error_of_its_own_says_the_coordinators_sentence_too(tmp_path, capsys):
    control = a_role(tmp_path, Simulated()).control
    control.endpoint = Unheard()
    # it came while this role computed
    control.stop("holder B could not reach the server")
    control.give_up("unreachable", "server")
    assert capsys.readouterr().err == "ppkit: holder B could not reach the server\n"


def test_a_role_that_tests_names_no_step_beyond_the_last(tmp_path):
    one = a_role(tmp_path, Simulated())
    one.progress.step, one.progress.last = 8, 6
    assert "the run stops at step 6" in one.control.without_coordinator()
    one.progress.step = 3
    assert "the run stops at step 3" in one.control.without_coordinator()
