//! Lists of rules and of numbers, small where there may be a million sessions.
//!
//! | list | for | octets in its owner |
//! |---|---|---|
//! | [`Shared`] | rules that are equal in many sessions, which then have one list | 8 |
//! | [`Few`] | numbers, of which there is one most of the time | 16 |
//! | [`Rare`] | what most rules have none of | 8 |

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A list that several sessions may have in common. One that changes becomes a list of its own.
#[derive(Clone, Debug)]
pub struct Shared<T>(Option<Arc<Vec<T>>>);

/// A list of mostly one number, which needs no memory beside itself then.
#[derive(Clone, Debug)]
pub enum Few<T> {
    /// One.
    One(T),
    /// None, or several.
    Many(Box<[T]>),
}

/// A list that is empty most of the time.
#[derive(Clone, Debug)]
// The vector lies behind a pointer, as three words of it would be three of each rule.
#[allow(clippy::box_collection, reason = "an empty list takes one word")]
pub struct Rare<T>(Option<Box<Vec<T>>>);

const _: () = assert!(size_of::<Shared<u32>>() == 8);
const _: () = assert!(size_of::<Few<u32>>() == 16);
const _: () = assert!(size_of::<Rare<u32>>() == 8);

impl<T: 'static> Shared<T> {
    const EMPTY: &'static Vec<T> = &Vec::new();

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.deref().is_empty()
    }

    /// The list itself, to be found again; none of an empty one.
    pub fn list(&self) -> Option<&Arc<Vec<T>>> {
        self.0.as_ref()
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Shared(None)
    }
}

impl<T> From<Arc<Vec<T>>> for Shared<T> {
    fn from(list: Arc<Vec<T>>) -> Self {
        Shared((!list.is_empty()).then_some(list))
    }
}

impl<T> From<Vec<T>> for Shared<T> {
    fn from(list: Vec<T>) -> Self {
        Shared::from(Arc::new(list))
    }
}

impl<T: 'static> Deref for Shared<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        self.0.as_deref().unwrap_or(Self::EMPTY)
    }
}

impl<T: Clone + 'static> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

impl<T> Few<T> {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.deref().is_empty()
    }
}

impl<T: Copy> Few<T> {
    /// Keeps those for which `is_kept` is true.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&T) -> bool) {
        if !self.iter().all(&mut is_kept) {
            *self = self.iter().copied().filter(|one| is_kept(one)).collect();
        }
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Few::Many(Box::default())
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Few::One(one) => std::slice::from_ref(one),
            Few::Many(many) => many,
        }
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items = items.into_iter();
        match (items.next(), items.next()) {
            (None, _) => Few::default(),
            (Some(one), None) => Few::One(one),
            (Some(one), Some(two)) => Few::Many([one, two].into_iter().chain(items).collect()),
        }
    }
}

impl<T> From<Vec<T>> for Few<T> {
    fn from(list: Vec<T>) -> Self {
        list.into_iter().collect()
    }
}

impl<T: 'static> Rare<T> {
    const EMPTY: &'static Vec<T> = &Vec::new();

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.deref().is_empty()
    }
}

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Rare(None)
    }
}

impl<T> From<Vec<T>> for Rare<T> {
    fn from(mut list: Vec<T>) -> Self {
        list.shrink_to_fit();
        Rare((!list.is_empty()).then(|| Box::new(list)))
    }
}

impl<T> FromIterator<T> for Rare<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Rare::from(items.into_iter().collect::<Vec<_>>())
    }
}

impl<T: 'static> Deref for Rare<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        self.0.as_deref().unwrap_or(Self::EMPTY)
    }
}

impl<T: 'static> DerefMut for Rare<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        self.0.get_or_insert_default()
    }
}

/// What all of them have in common: they are compared, read and written as what is in them.
macro_rules! list {
    ($($list:ident),*) => {$(
        impl<T: PartialEq + 'static> PartialEq for $list<T> {
            fn eq(&self, other: &Self) -> bool {
                self[..] == other[..]
            }
        }

        impl<T: Eq + 'static> Eq for $list<T> {}

        impl<'l, T: 'static> IntoIterator for &'l $list<T> {
            type Item = &'l T;
            type IntoIter = std::slice::Iter<'l, T>;

            fn into_iter(self) -> Self::IntoIter {
                self.iter()
            }
        }

        impl<T: Serialize + 'static> Serialize for $list<T> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self[..].serialize(serializer)
            }
        }

        impl<'de, T: Deserialize<'de>> Deserialize<'de> for $list<T> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Vec::deserialize(deserializer).map(Self::from)
            }
        }

        impl<T: JsonSchema> JsonSchema for $list<T> {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                Vec::<T>::schema_name()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                Vec::<T>::json_schema(generator)
            }
        }
    )*};
}

list!(Shared, Few, Rare);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_changes_leaves_the_others_alone() {
        let one: Shared<u32> = vec![1, 2].into();
        let mut other = one.clone();
        assert!(Arc::ptr_eq(one.list().unwrap(), other.list().unwrap()));
        other.push(3);
        assert_eq!((&one[..], &other[..]), (&[1, 2][..], &[1, 2, 3][..]));
        assert!(Shared::<u32>::from(Vec::new()).list().is_none());
    }

    #[test]
    fn few_are_one_or_more() {
        for count in 0..4 {
            let mut few: Few<u32> = (0..count).collect();
            assert_eq!(few.len(), count as usize);
            assert_eq!(matches!(few, Few::One(_)), count == 1);
            let text = serde_json::to_string(&few).unwrap();
            assert_eq!(serde_json::from_str::<Few<u32>>(&text).unwrap(), few);
            few.retain(|one| *one != 1);
            assert!(!few.contains(&1));
            assert_eq!(few.len(), if count > 1 { count as usize - 1 } else { count as usize });
        }
    }
}
