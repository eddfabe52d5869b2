//! How functions are registered: each domain lists its own, and all of them stand
//! in one list, by name.

use weft_compose::Kind;

/// Declares the module of each function of a domain and lists its kind, so that a
/// function is one line. `: Lower` behind it says that it can be fused.
macro_rules! functions {
    ($($module:ident::$function:ident $(: $lower:ident)?),* $(,)?) => {
        $(
            #[allow(clippy::module_inception, reason = "a function's file has its name")]
            pub mod $module;
        )*

        /// The functions of this domain.
        pub(crate) const KINDS: &[weft_compose::Kind] =
            &[$(kind_of!($module::$function $(: $lower)?)),*];
    };
}

macro_rules! kind_of {
    ($module:ident::$function:ident) => {
        weft_compose::Kind::of::<$module::$function>()
    };
    ($module:ident::$function:ident : Lower) => {
        weft_compose::Kind::lowered::<$module::$function>()
    };
}

/// How many functions the domains have.
pub(crate) const fn count(domains: &[&[Kind]]) -> usize {
    let (mut all, mut domain) = (0, 0);
    while domain < domains.len() {
        all += domains[domain].len();
        domain += 1;
    }
    all
}

/// The functions of all domains, by name. `N` is their [`count`].
pub(crate) const fn by_name<const N: usize>(domains: &[&[Kind]]) -> [Kind; N] {
    let mut sorted = [domains[0][0]; N];
    let (mut all, mut domain) = (0, 0);
    while domain < domains.len() {
        let mut next = 0;
        while next < domains[domain].len() {
            let kind = domains[domain][next];
            let mut place = all;
            while place > 0 && is_less(kind.name, sorted[place - 1].name) {
                sorted[place] = sorted[place - 1];
                place -= 1;
            }
            sorted[place] = kind;
            all += 1;
            next += 1;
        }
        domain += 1;
    }
    sorted
}

/// `one < other`, which the compiler cannot yet evaluate for text.
const fn is_less(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() {
        if one[at] != other[at] {
            return one[at] < other[at];
        }
        at += 1;
    }
    one.len() < other.len()
}
