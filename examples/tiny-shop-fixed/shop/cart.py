"""What a customer has to pay, in cents."""


def total(lines, discount_percent=0):
    """Each line is a price in cents and a quantity."""
    full = sum(price * quantity for price, quantity in lines)
    return full - full * discount_percent // 100


def is_free_of_shipping(lines):
    """From 50.00 on."""
    return total(lines) >= 5000
