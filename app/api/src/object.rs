//! An object inside of a body. Without this an array would be read as its fields in their order, which
//! no description of a body says.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use std::{borrow::Cow, fmt, marker::PhantomData};

/// What is read from an object and from nothing else.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

struct Fields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields))
    }
}

impl<T: JsonSchema> JsonSchema for Object<T> {
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
    use famulus_core::{agent::Budgets, schedule::Rule};

    #[test]
    fn an_array_is_no_object() {
        let budgets = |text: &str| serde_json::from_str::<Object<Budgets>>(text).map(|it| it.0);
        assert_eq!(budgets(r#"{"read": 2}"#).unwrap(), Budgets { read: 2, ..Budgets::default() });
        assert!(
            budgets("[]").is_err() && budgets("[1, 2, 3]").is_err() && budgets("null").is_err()
        );
        let rule = |text: &str| serde_json::from_str::<Object<Rule>>(text).map(|it| it.0);
        let every = rule(r#"{"seconds": 60, "kind": "every"}"#).unwrap();
        assert_eq!(every, Rule::Every { seconds: 60 });
        assert!(rule(r#"["every", 60]"#).is_err());
    }
}
