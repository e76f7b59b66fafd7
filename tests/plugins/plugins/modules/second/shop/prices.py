TAX = 10


def with_tax(cents):
    return cents + cents * TAX // 100
