"""Fixtures that several test files share."""

from tests.support.fixtures import cuda_libraries, stub_driver, targets

__all__ = ["cuda_libraries", "stub_driver", "targets"]
