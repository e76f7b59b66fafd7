def water(hour):
    return "high" if hour % 12 < 6 else "low"


def turns_in(hour):
    return 6 - hour % 6
