//! `timestamptz` as a jiff timestamp: microseconds since 2000-01-01 UTC on the wire.

use jiff::Timestamp;
use sqlx::{
    Decode, Encode, Postgres, Type,
    encode::IsNull,
    error::BoxDynError,
    postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef},
};

/// Microseconds from the Unix epoch to Postgres' own.
const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;

/// An instant as a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub Timestamp);

impl From<Timestamp> for Instant {
    fn from(at: Timestamp) -> Self {
        Self(at)
    }
}

impl From<Instant> for Timestamp {
    fn from(at: Instant) -> Self {
        at.0
    }
}

impl Type<Postgres> for Instant {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("timestamptz")
    }
}

impl PgHasArrayType for Instant {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("_timestamptz")
    }
}

impl Encode<'_, Postgres> for Instant {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let micros = self.0.as_microsecond() - POSTGRES_EPOCH_MICROS;
        Encode::<Postgres>::encode_by_ref(&micros, buf)
    }

    fn size_hint(&self) -> usize {
        size_of::<i64>()
    }
}

impl Decode<'_, Postgres> for Instant {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        match value.format() {
            PgValueFormat::Binary => {
                let micros: i64 = Decode::<Postgres>::decode(value)?;
                Ok(Self(Timestamp::from_microsecond(micros + POSTGRES_EPOCH_MICROS)?))
            }
            PgValueFormat::Text => Ok(Self(value.as_str()?.replacen(' ', "T", 1).parse()?)),
        }
    }
}
