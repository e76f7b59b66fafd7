//! A place in an order, as clients keep it and send it back: two numbers, such as `7-12`.

/// What such a text looks like: every number of so many digits fits 64 bits.
pub const PATTERN: &str = "^[0-9]{1,18}-[0-9]{1,18}$";

/// Reads what [`PATTERN`] describes, and nothing else.
pub fn read(text: &str) -> Option<(i64, i64)> {
    let number = |digits: &str| {
        let plain = (1..=18).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| digits.parse().ok()).flatten()
    };
    let (first, second) = text.split_once('-')?;
    Some((number(first)?, number(second)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_numbers_and_nothing_else() {
        let check = |text: &str, expected| assert_eq!(read(text), expected, "{text}");
        check("7-12", Some((7, 12)));
        check("0-0", Some((0, 0)));
        check("999999999999999999-1", Some((999_999_999_999_999_999, 1)));
        for text in
            ["", "7", "7-", "-7", "+7-1", "7--1", " 7-1", "7-1 ", "1234567890123456789-1", "٣-1"]
        {
            check(text, None);
        }
    }
}
