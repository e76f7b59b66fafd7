//! People.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The account id.
    pub id: String,
    /// Hidden from us, where there is none.
    pub number: Option<String>,
    pub name: String,
}

impl User {
    pub fn new(number: u32, name: &str) -> Self {
        Self { id: id(number), number: Some(phone(number)), name: name.to_owned() }
    }

    /// One whose number nobody sees.
    pub fn hidden(number: u32, name: &str) -> Self {
        Self { number: None, ..Self::new(number, name) }
    }
}

pub(crate) fn id(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

pub(crate) fn phone(number: u32) -> String {
    format!("+1555{number:07}")
}
