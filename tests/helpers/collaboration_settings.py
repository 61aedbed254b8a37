"""Privacy and Learning, field by field: tests vary one setting at a time."""

from dataclasses import fields

from ppkit.collaboration.privacy import Privacy
from ppkit.collaboration.training import Learning


def flat(function):
    """A function of `privacy` and `learning` that takes their fields as settings of its own."""

    def call(owners, **settings):
        for name, kind in (("privacy", Privacy), ("learning", Learning)):
            own = [field.name for field in fields(kind) if field.name in settings]
            settings[name] = kind(**{field: settings.pop(field) for field in own})
        return function(owners, **settings)

    return call
