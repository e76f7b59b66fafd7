//! Amounts as people say them.

/// Bytes as people say them.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} bytes");
    }
    let mut amount = count as f64 / 1024.0;
    let mut unit = UNITS[0];
    for larger in &UNITS[1..] {
        if amount < 1024.0 {
            break;
        }
        amount /= 1024.0;
        unit = larger;
    }
    format!("{amount:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_said_in_fitting_units() {
        let check = |count, expected: &str| assert_eq!(bytes(count), expected);
        check(12, "12 bytes");
        check(2048, "2.0 KiB");
        check(5 << 30, "5.0 GiB");
    }
}
