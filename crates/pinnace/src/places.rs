//! Where the associations of an endpoint are kept: by a place that is theirs as long as anybody needs them, and found by the slot
//! of the engine's table, which is another's as soon as the engine has forgotten them.

use pinnace_core::ContextKey;
use pinnace_runtime::Topic;

/// An association's name in the library.
pub(crate) type Place = u32;

/// What whoever waits for something of the association in this place waits for.
pub(crate) fn topic(place: Place) -> Topic {
    Topic::of(place.into())
}

/// Associations in their places.
#[derive(Debug)]
pub(crate) struct Places<T> {
    // Boxed: most endpoints have few, and a table that grows moves nothing.
    places: Vec<Option<Box<T>>>,
    free: Vec<Place>,
    /// The place of the newest association of each slot in the engine's table, plus one.
    by_slot: Vec<Place>,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new(), by_slot: Vec::new() }
    }
}

impl<T> Places<T> {
    /// An association, which the engine knows by `key`, has a place from now on.
    pub(crate) fn insert(&mut self, key: ContextKey, association: T) -> Place {
        let association = Some(Box::new(association));
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = association;
                place
            }
            None => {
                self.places.push(association);
                self.places.len() as Place - 1
            }
        };
        let slot = key.slot as usize;
        if self.by_slot.len() <= slot {
            self.by_slot.resize(slot + 1, 0);
        }
        self.by_slot[slot] = place + 1;
        place
    }

    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut T> {
        self.places.get_mut(place as usize)?.as_deref_mut()
    }

    /// The newest association of a slot, if it is still here. Whether it is the one that is meant, its own name says.
    pub(crate) fn newest(&mut self, slot: u32) -> Option<(Place, &mut T)> {
        let place = self.by_slot.get(slot as usize)?.checked_sub(1)?;
        Some((place, self.get_mut(place)?))
    }

    /// The place is free for another.
    pub(crate) fn remove(&mut self, place: Place) {
        if self.places.get_mut(place as usize).and_then(Option::take).is_some() {
            self.free.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_given_again_and_a_slot_leads_to_its_newest() {
        let key = |slot| ContextKey { slot, instance: 1 };
        let mut places = Places::default();
        assert_eq!([places.insert(key(5), 'a'), places.insert(key(2), 'b')], [0, 1]);
        assert_eq!(places.newest(5), Some((0, &mut 'a')));
        assert!([3, 9].into_iter().all(|slot| places.newest(slot).is_none()));
        // The engine has given the slot to another, and somebody still reads of the first.
        assert_eq!((places.insert(key(5), 'c'), places.get_mut(0)), (2, Some(&mut 'a')));
        assert_eq!(places.newest(5), Some((2, &mut 'c')));
        places.remove(0);
        places.remove(0);
        assert_eq!(places.get_mut(0), None);
        assert_eq!([places.insert(key(7), 'd'), places.insert(key(8), 'e')], [0, 3]);
    }
}
