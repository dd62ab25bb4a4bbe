import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from youbencha.gateway import price_list

# The tests here share one small client, which is no test itself.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True, scope="session")
def fresh_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The table of prices is made by the code under test, and not left from an earlier version of it."""
    directory = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(price_list, "default_cache_dir", lambda: directory)
        yield
