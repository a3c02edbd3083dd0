"""HTML form of fitted estimators with the statement of their guarantee."""

import html

__all__ = ["StatedHTML"]


class StatedHTML:
    """Estimators whose HTML form shows ``privacy_``, which is public.

    It comes before scikit-learn's `BaseEstimator` in the list of bases.
    """

    def _repr_html_inner(self):
        return super()._repr_html_inner() + self._statement()

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._statement()
        return bundle

    def _statement(self):
        guarantee = vars(self).get("privacy_")
        if guarantee is None:
            return ""
        return f"<p><code>privacy_</code>: {html.escape(str(guarantee))}</p>"
