"""A program in place of a coding agent. It gets the task as arguments, and works in the current directory.

It can only fix the discount of the tiny shop. It needs no model and no key.
"""

import sys
from pathlib import Path


def main() -> int:
    task = " ".join(sys.argv[1:]) or sys.stdin.read()
    print(f"My task: {task.strip()}")
    cart = Path("shop/cart.py")
    before = cart.read_text(encoding="utf-8")
    after = before.replace("full - discount_percent", "full - full * discount_percent // 100")
    if after == before:
        print("I found nothing to fix.")
        return 1
    cart.write_text(after, encoding="utf-8", newline="\n")
    print(f"I fixed {cart}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
