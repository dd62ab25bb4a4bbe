import sys
from pathlib import Path

# The tests here share one small client, which is no test itself.
sys.path.insert(0, str(Path(__file__).parent))
