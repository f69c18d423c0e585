//! The forms of a service: short text, TOML, and whatever `serde` can write as a table.

use super::{Malformed, Service, words};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt;
use std::str::FromStr;

impl fmt::Display for Service {
    /// The short text: `loss=5% run=4KiB deadline=50ms`. Nothing at all for the service of which nothing is said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in words::pairs(self).enumerate() {
            write!(f, "{}{name}={value}", if at == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl FromStr for Service {
    type Err = Malformed;

    /// The short text: words like `loss=5%`, in any order, with white space between them.
    fn from_str(text: &str) -> Result<Self, Malformed> {
        words::service_of(text.split_whitespace().map(words::pair))
    }
}

impl Service {
    /// A TOML table, a line a word: `loss = "5%"`.
    ///
    /// ```
    /// use pinnace::service::Service;
    /// let service = Service::from_toml("loss = '5%'\ncritical = ['0..1KiB', '1MiB..1025KiB']\npriority = 3\norder = false")?;
    /// assert_eq!(service.to_string(), "loss=5% critical=0..1KiB,1MiB..1025KiB priority=3 order=no");
    /// assert_eq!(Service::from_toml(&service.to_toml())?, service);
    /// # Ok::<(), pinnace::service::Malformed>(())
    /// ```
    pub fn to_toml(&self) -> String {
        words::pairs(self).map(|(name, value)| format!("{name} = {}\n", toml::Value::from(value))).collect()
    }

    /// What [`Service::to_toml`] writes. Numbers, truth values and lists of words may be written as such.
    ///
    /// # Errors
    /// A word that is not known, or wrong, or text that is no TOML.
    pub fn from_toml(text: &str) -> Result<Self, Malformed> {
        let words: Result<Words, _> = toml::from_str(text);
        let Words(words) =
            words.map_err(|error| Malformed::new("TOML", error.message(), "lines like loss = \"5%\""))?;
        words::service_of(words.iter().map(|(name, value)| (name.as_str(), Some(value.as_str()))))
    }
}

impl Serialize for Service {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in words::pairs(self) {
            map.serialize_entry(name, &value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Service {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Words(words) = Words::deserialize(deserializer)?;
        let words = words.iter().map(|(name, value)| (name.as_str(), Some(value.as_str())));
        words::service_of(words).map_err(serde::de::Error::custom)
    }
}

/// A table of words, as the short text has them.
struct Words(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(WordsVisitor)
    }
}

struct WordsVisitor;

impl<'de> Visitor<'de> for WordsVisitor {
    type Value = Words;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of the properties of a service")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Words, A::Error> {
        let mut words = Vec::new();
        while let Some((name, Plain(value))) = map.next_entry::<String, Plain>()? {
            words.push((name, value));
        }
        Ok(Words(words))
    }
}

/// A value as the short text has it.
struct Plain(String);

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainVisitor)
    }
}

struct PlainVisitor;

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = Plain;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, a truth value, or a list of them")
    }

    fn visit_str<E>(self, text: &str) -> Result<Plain, E> {
        Ok(Plain(text.to_owned()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Plain, E> {
        Ok(Plain(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Plain, E> {
        Ok(Plain(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Plain, E> {
        Ok(Plain(number.to_string()))
    }

    fn visit_bool<E>(self, is: bool) -> Result<Plain, E> {
        Ok(Plain(if is { "yes" } else { "no" }.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Plain, A::Error> {
        let mut texts = Vec::new();
        while let Some(Plain(text)) = values.next_element()? {
            texts.push(text);
        }
        Ok(Plain(texts.join(",")))
    }
}
