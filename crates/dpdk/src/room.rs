//! Memory for tables and contexts, in large pages where the kernel gives them.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// What the kernel may give at once: a huge page.
const HUGE_PAGE: usize = 2 << 20;
const CACHE_LINE: usize = 64;

/// An empty vector with room for `capacity` elements. Much room is asked for in
/// transparent huge pages: packets of many users touch pages in no order, and
/// with small ones nearly every touch would miss the TLB.
pub fn with_room<T>(capacity: usize) -> Vec<T> {
    let vector = Vec::<T>::with_capacity(capacity);
    advise(vector.as_ptr() as usize, capacity * size_of::<T>());
    vector
}

/// Asks for huge pages where whole ones fit in.
fn advise(start: usize, bytes: usize) {
    let first = start.next_multiple_of(HUGE_PAGE);
    let length = (start + bytes).saturating_sub(first) / HUGE_PAGE * HUGE_PAGE;
    if length > 0 {
        // SAFETY: the pages lie within memory of the caller's own, and the advice
        // changes nothing that is stored there. Without it all works as well, so
        // a refusal is no failure.
        unsafe { libc::madvise(first as *mut libc::c_void, length, libc::MADV_HUGEPAGE) };
    }
}

/// A slice that begins with a cache line.
pub(crate) struct Lines<T> {
    first: NonNull<T>,
    count: usize,
}

// SAFETY: the elements are owned, as in a box.
unsafe impl<T: Send> Send for Lines<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Lines<T> {}

impl<T: Copy> Lines<T> {
    /// So many elements, all of them alike.
    ///
    /// # Panics
    /// When they have no octets, or more than there can be memory for.
    pub(crate) fn new(count: usize, element: T) -> Lines<T> {
        let layout = layout::<T>(count);
        assert!(layout.size() > 0, "nothing to make room for");
        // SAFETY: the layout has a size.
        let memory = unsafe { alloc(layout) }.cast::<T>();
        let Some(first) = NonNull::new(memory) else { handle_alloc_error(layout) };
        advise(first.as_ptr() as usize, layout.size());
        for index in 0..count {
            // SAFETY: the element lies within the layout.
            unsafe { first.add(index).write(element) };
        }
        Lines { first, count }
    }
}

/// That of so many elements, with huge pages of their own where they fill some.
fn layout<T>(count: usize) -> Layout {
    let layout = Layout::array::<T>(count).expect("less than all memory");
    let align = if layout.size() < HUGE_PAGE { CACHE_LINE } else { HUGE_PAGE };
    layout.align_to(align).expect("less than all memory")
}

impl<T> Deref for Lines<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: so many elements were written as this was made.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl<T> DerefMut for Lines<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.count) }
    }
}

impl<T: Copy> Clone for Lines<T> {
    fn clone(&self) -> Lines<T> {
        let mut copy = Lines::new(self.count, self[0]);
        copy.copy_from_slice(self);
        copy
    }
}

impl<T> Drop for Lines<T> {
    fn drop(&mut self) {
        // SAFETY: made with the same layout; copies need no drop of their own.
        unsafe { dealloc(self.first.as_ptr().cast(), layout::<T>(self.count)) };
    }
}
