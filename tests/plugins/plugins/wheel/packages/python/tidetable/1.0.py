def water(hour):
    return "high" if hour % 12 < 6 else "low"
