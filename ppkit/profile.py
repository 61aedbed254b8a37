"""What a notebook runs with: the sizes of its profile, changed where the parameters cell asks for it."""

from types import MappingProxyType, SimpleNamespace

UNSET = (0, "")


class Settings(SimpleNamespace):
    """The resolved settings of one run; printing it shows one line a setting."""

    def __repr__(self) -> str:
        width = max(map(len, vars(self)))
        return "\n".join(f"{name:<{width}}  {value}" for name, value in vars(self).items())


def of(name: str, sizes: dict[str, dict], **overrides) -> Settings:
    """The settings of profile `name` from the table `sizes`, with every override that is set.

    sizes: one dict of settings per profile, all with the same names.
    overrides: settings by name; 0 and "" mean "what the profile says".
    Returns Settings with `.profile` and one attribute a setting.
    ValueError on an unknown profile or setting, with those that exist.

    >>> of("quick", {"quick": {"n_rounds": 10}, "paper": {"n_rounds": 300}}, n_rounds=0).n_rounds
    10
    >>> of("quick", {"quick": {"n_rounds": 10}, "paper": {"n_rounds": 300}}, n_rounds=25).n_rounds
    25
    """
    if name not in sizes:
        raise ValueError(f"unknown profile {name!r}: this notebook has {', '.join(sizes)}")
    chosen = MappingProxyType(sizes[name])
    unknown = sorted(set(overrides) - set(chosen))
    if unknown:
        raise ValueError(f"unknown setting {unknown[0]!r}: profile {name!r} has {', '.join(chosen)}")
    wanted = {key: value for key, value in overrides.items() if value not in UNSET}
    for key, value in wanted.items():
        if isinstance(value, (int, float)) and not value > 0:
            raise ValueError(f"{key} must be > 0, got {value}")
    return Settings(profile=name, **{**chosen, **wanted})
