//! The choice: the cheapest of the offers that fit.
//!
//! Always true: if any method that is allowed fits, one is chosen; none that fits is cheaper; of two at the same cost the
//! one that [`Method::ALL`] names first is taken.

use super::{Method, Offer, Path, Service};
use std::fmt;

/// Which methods may be chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// This one or none.
    pub forced: Option<Method>,
    /// None of these.
    pub excluded: Vec<Method>,
}

impl Selection {
    /// Whether a method may be chosen.
    pub fn allows(&self, method: Method) -> bool {
        self.forced.is_none_or(|forced| forced == method) && !self.excluded.contains(&method)
    }
}

/// What is taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The cheapest offer that fits.
    pub offer: Offer,
    /// What all others answered: those that fit first, by their cost; also those that were not allowed.
    pub others: Vec<Offer>,
}

/// No method that is allowed can carry the service on this path. Says of each what could not be met.
#[derive(Clone, Debug, PartialEq)]
pub struct Unmet {
    /// What every method answered.
    pub offers: Vec<Offer>,
    /// Which of them might have been chosen.
    pub selection: Selection,
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no method can carry this service:")?;
        let mut separator = " ";
        for Offer { method, fits, why, .. } in &self.offers {
            if !self.selection.allows(*method) {
                // What was not asked for is no reason, save that it would have been one.
                if *fits {
                    write!(f, "{separator}{method} would, but is not allowed")?;
                    separator = "; ";
                }
                continue;
            }
            write!(f, "{separator}{method} {}", why.join(", and "))?;
            separator = "; ";
        }
        Ok(())
    }
}

impl std::error::Error for Unmet {}

/// The cheapest method that fits.
///
/// ```
/// use pinnace::service::{Method, Path, PathClass, Selection, choose};
/// let (camera, path) = ("loss=5% size=2MB rate=200mbit".parse()?, Path::of_class(PathClass::Internet));
/// let without_vrp = Selection { excluded: vec![Method::Vrp], ..Selection::default() };
/// let choice = choose(&camera, &path, &without_vrp)?;
/// assert_eq!(choice.offer.method, Method::Zcrp);
/// assert!(choice.others.iter().any(|offer| offer.method == Method::Vrp && offer.fits));
///
/// let impossible = choose(&"deadline=1ms".parse()?, &path, &Selection::default()).unwrap_err();
/// assert!(impossible.to_string().contains("deadline 1.0 ms"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Unmet`] if none fits that the selection allows.
pub fn choose(service: &Service, path: &Path, selection: &Selection) -> Result<Choice, Unmet> {
    let mut offers: Vec<Offer> = Method::ALL.into_iter().map(|method| method.probe(service, path)).collect();
    offers.sort_by(|a, b| b.fits.cmp(&a.fits).then(a.cost.total().total_cmp(&b.cost.total())));
    match offers.iter().position(|offer| offer.fits && selection.allows(offer.method)) {
        Some(at) => {
            let offer = offers.remove(at);
            Ok(Choice { offer, others: offers })
        }
        None => Err(Unmet { offers, selection: selection.clone() }),
    }
}
