TAX = 20


def with_tax(cents):
    return cents + cents * TAX // 100
