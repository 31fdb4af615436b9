"""The API server in this process, one for the tests that ask for it; each of them works in names of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.unit.apiserver.api_in_process import ApiInProcess, api_in_process


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ApiInProcess]:
    async with api_in_process(tmp_path_factory.mktemp("api")) as api:
        yield api
