//! Quality of service.

functions! {
    marker::Marker: Lower,
}
