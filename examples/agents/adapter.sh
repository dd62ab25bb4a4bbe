#!/bin/bash
# A script in place of a coding agent, for `adapter:` of an arena. It can only fix the discount of the tiny shop.
set -e
cd "$TASK_DIR"
echo "My task: $(cat "$TASK_DESCRIPTION")"
sed -i 's|full - discount_percent|full - full * discount_percent // 100|' shop/cart.py
