"""A scaler whose columns lie far from zero, so that their ranges are narrowed."""

from skdpbo.preprocessing import DPMinMaxScaler


class FarFromZero(DPMinMaxScaler):
    """Fitted to X + 500."""

    def fit(self, X, y=None, groups=None):
        return super().fit(X + 500.0, y, groups=groups)
