"""A cluster of two worker processes that nobody gives up, however busy the machine is."""

from contextlib import contextmanager

import pytest

__all__ = ["dask_cluster"]

PATIENCE = "600s"


@contextmanager
def dask_cluster():
    """Start a local Dask cluster; the test is skipped where Dask is not installed."""
    distributed = pytest.importorskip("distributed")
    import dask

    patient = {
        "distributed.comm.timeouts.connect": PATIENCE,
        "distributed.comm.timeouts.tcp": PATIENCE,
        "distributed.deploy.lost-worker-timeout": PATIENCE,
        "distributed.scheduler.worker-ttl": None,
    }
    with (
        dask.config.set(patient),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            memory_limit=0,  # none
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
