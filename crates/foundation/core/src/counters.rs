//! Counters: structs of `u64` whose field names are the names that every tool, binding and document uses.

/// Declares a struct of counters. Each has a name (its field, a snake_case noun with its unit) and a description.
///
/// ```
/// pinnace_core::counters! {
///     /// What a mill has seen.
///     pub struct MillCounters {
///         /// Sacks ground.
///         sacks_ground,
///         /// Sacks spoiled.
///         sacks_spoiled,
///     }
/// }
/// let mill = MillCounters { sacks_ground: 3, ..Default::default() };
/// assert_eq!(mill.iter().collect::<Vec<_>>(), [("sacks_ground", 3), ("sacks_spoiled", 0)]);
/// assert_eq!(mill.value("sacks_ground"), Some(3));
/// assert_eq!(MillCounters::describe("sacks_ground"), Some("Sacks ground."));
/// ```
#[macro_export]
macro_rules! counters {
    ($(#[doc = $about:literal])* $vis:vis struct $name:ident { $(#[doc = $doc:literal] $field:ident,)* }) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $vis struct $name { $(#[doc = $doc] pub $field: u64,)* }

        impl $name {
            /// Every counter's name, in order.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];

            /// Every counter with its name, in order.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }

            /// The counter of this name.
            pub fn value(&self, name: &str) -> Option<u64> {
                match name { $(stringify!($field) => Some(self.$field),)* _ => None }
            }

            /// What the counter of this name counts.
            pub fn describe(name: &str) -> Option<&'static str> {
                match name { $(stringify!($field) => Some($doc.trim()),)* _ => None }
            }
        }

        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                for (name, value) in self.iter() {
                    writeln!(f, "{name} {value}")?;
                }
                Ok(())
            }
        }
    };
}
