"""The conformance kit: test your own adapter against the contract that the built-in ones pass.

    from youbencha.testing import AdapterContract, Agent, Prepared, Situation

    class MyAgent(Agent):
        def adapter(self): return MyAdapter()
        @asynccontextmanager
        async def in_situation(self, situation, workspace): ...

    class TestMyAdapter(AdapterContract):
        @pytest.fixture
        def agent(self): return MyAgent()

Needs pytest and pytest-asyncio: `pip install youbencha[testing]`.
"""

from youbencha.testing.agent import Agent, NotApplicable, Prepared, Situation
from youbencha.testing.contract import AdapterContract

__all__ = ["AdapterContract", "Agent", "NotApplicable", "Prepared", "Situation"]
