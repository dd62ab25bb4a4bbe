"""`python3 -m kvstore.cli FILE get KEY | set KEY JSON | del KEY | keys | compact`."""

from __future__ import annotations

import json
import sys

from kvstore.store import Store, StoreError


def main(arguments: list[str]) -> int:
    path, command, *rest = arguments
    try:
        store = Store(path)
        if command == "get":
            print(json.dumps(store[rest[0]], ensure_ascii=False))
        elif command == "set":
            store.set(rest[0], json.loads(rest[1]))
        elif command == "del":
            store.delete(rest[0])
        elif command == "keys":
            print("\n".join(store))
        elif command == "compact":
            store.dump()
        else:
            print(f"error: unknown command {command}", file=sys.stderr)
            return 2
    except KeyError as error:
        print(f"error: no key {error.args[0]}", file=sys.stderr)
        return 1
    except StoreError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
