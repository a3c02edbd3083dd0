"""HTML representation of fitted estimators with the statement of their guarantee."""

import html
from typing import Any


class StatedHTML:
    """Mixin of estimators whose HTML representation shows ``privacy_``, which is public.

    List it before scikit-learn's `BaseEstimator` among the bases.
    """

    def _repr_html_inner(self) -> str:
        return f"{super()._repr_html_inner()}{self._statement()}"  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._statement()
        return bundle

    def _statement(self) -> str:
        guarantee = vars(self).get("privacy_")
        if guarantee is None:
            return ""
        # The user's own texts may be part of a guarantee.
        return f"<p><code>privacy_</code>: {html.escape(str(guarantee))}</p>"
