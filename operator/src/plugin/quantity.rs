//! Amounts of resources, compared by what they mean: `1000m` is `1`.

/// The number that an amount means. Nothing if it is none.
pub(crate) fn value(amount: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 10] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("m", 0.001),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("", 1.0),
    ];
    let (unit, factor) = UNITS.iter().find(|(unit, _)| amount.ends_with(unit))?;
    let number = amount.strip_suffix(unit)?;
    let plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    plain.then(|| number.parse::<f64>().ok()).flatten().map(|number| number * factor)
}

/// Whether two amounts mean the same.
pub(crate) fn same(one: &str, other: &str) -> bool {
    match (value(one), value(other)) {
        (Some(one), Some(other)) => (one - other).abs() <= 1e-9 * one.abs().max(other.abs()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_numbers_with_units() {
        let table = [
            ("2", Some(2.0)),
            ("500m", Some(0.5)),
            ("1.5Gi", Some(1_610_612_736.0)),
            ("1k", Some(1000.0)),
            ("", None),
            ("Mi", None),
            ("-1", None),
            ("1e3", None),
        ];
        for (amount, expected) in table {
            assert_eq!(value(amount), expected, "{amount}");
        }
        assert!(same("1000m", "1") && same("1.5Gi", "1536Mi"));
        assert!(!same("1", "2") && !same("a", "a"));
    }
}
