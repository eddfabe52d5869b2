//! Memory for tables and contexts, in large pages where the kernel gives them.

/// What the kernel may give at once: a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// An empty vector with room for `capacity` elements. Much room is asked for in
/// transparent huge pages: packets of many users touch pages in no order, and
/// with small ones nearly every touch would miss the TLB.
pub fn with_room<T>(capacity: usize) -> Vec<T> {
    let vector = Vec::<T>::with_capacity(capacity);
    let first = (vector.as_ptr() as usize).next_multiple_of(HUGE_PAGE);
    let end = vector.as_ptr() as usize + capacity * size_of::<T>();
    let length = end.saturating_sub(first) / HUGE_PAGE * HUGE_PAGE;
    if length > 0 {
        // SAFETY: the pages lie within the vector's own room, and the advice
        // changes nothing that is stored there. Without it all works as well, so
        // a refusal is no failure.
        unsafe { libc::madvise(first as *mut libc::c_void, length, libc::MADV_HUGEPAGE) };
    }
    vector
}
