"""Frozen objects that group parameters of a searcher, and are set by nested names."""

from dataclasses import dataclass, fields, replace
from typing import Any


def changed(settings, params):
    """Return a copy of frozen settings with some parameters changed."""
    unknown = set(params) - set(settings.get_params())
    if unknown:
        raise ValueError(
            f"Invalid parameter {sorted(unknown)[0]!r} for {settings!r}. Valid parameters are: "
            f"{sorted(settings.get_params())!r}."
        )
    return replace(settings, **params)


@dataclass(frozen=True)
class FrozenParameters:
    """Frozen parameters that ``clone`` and a searcher's ``get_params`` read."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters.

        Parameters
        ----------
        deep : bool, default=True
            Not used: no parameter has parameters of its own.

        Returns
        -------
        params : dict
            Values by name.
        """
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _filled(self, **defaults):
        """Return a copy with the values of `defaults` for parameters that are None."""
        missing = {name: value for name, value in defaults.items() if getattr(self, name) is None}
        return replace(self, **missing)
