"""Protocol of outsourced optimisation: messages, their loops, and the domains of released rows."""

from skdpbo.gaussian_process.outsourced._domains import Ball, Box
from skdpbo.gaussian_process.outsourced._messages import Answer, ProtocolError, Query, Refusal
from skdpbo.gaussian_process.outsourced._protocol import run_queries, serve_answers

__all__ = [
    "Answer",
    "Ball",
    "Box",
    "ProtocolError",
    "Query",
    "Refusal",
    "run_queries",
    "serve_answers",
]
