"""Privacy guarantees of whole pipelines."""

from skdpbo.pipeline._pipeline_guarantee import pipeline_guarantee

__all__ = ["pipeline_guarantee"]
