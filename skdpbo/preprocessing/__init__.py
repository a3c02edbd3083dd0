"""Private scalers, imputers and encoders: every training record is protected."""

from skdpbo.preprocessing._imputer import DPSimpleImputer
from skdpbo.preprocessing._min_max_scaler import DPMinMaxScaler
from skdpbo.preprocessing._one_hot_encoder import DPOneHotEncoder
from skdpbo.preprocessing._standard_scaler import DPStandardScaler

__all__ = ["DPMinMaxScaler", "DPOneHotEncoder", "DPSimpleImputer", "DPStandardScaler"]
