//! Whole numbers as JSON has them: `2` and `2.0` are the same.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer,
    de::{Error, Unexpected, Visitor},
};
use std::{borrow::Cow, fmt, marker::PhantomData};

/// A number that is read however it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole<T>(pub T);

/// For `deserialize_with`.
///
/// # Errors
/// It is not whole, or out of range.
pub fn read<'de, T: TryFrom<i64>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    from.deserialize_any(Number(PhantomData))
}

impl<'de, T: TryFrom<i64>> Deserialize<'de> for Whole<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer).map(Self)
    }
}

struct Number<T>(PhantomData<T>);

impl<T: TryFrom<i64>> Visitor<'_> for Number<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number that fits {}", std::any::type_name::<T>())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        let out_of_range = |_| E::invalid_value(Unexpected::Signed(number), &self);
        number.try_into().map_err(out_of_range)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Unsigned(number), &self)),
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        // Up to here a float names each whole number exactly.
        const EXACT: f64 = (1_i64 << 53) as f64;
        if number.fract() == 0.0 && number.abs() <= EXACT {
            return self.visit_i64(number as i64);
        }
        Err(E::invalid_value(Unexpected::Float(number), &self))
    }
}

impl<T: JsonSchema> JsonSchema for Whole<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_read_however_it_is_written() {
        let check = |text: &str, expected: Option<u32>| {
            let read = serde_json::from_str::<Whole<u32>>(text).ok();
            assert_eq!(read.map(|number| number.0), expected, "{text}");
        };
        check("2", Some(2));
        check("2.0", Some(2));
        check("4294967295.0", Some(u32::MAX));
        check("0e5", Some(0));
        for text in ["2.5", "-1", "-1.0", "4294967296", "1e300", "\"2\"", "null", "true"] {
            check(text, None);
        }
    }
}
