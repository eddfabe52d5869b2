//! A worker reads and writes contexts of a function.

use std::sync::mpsc::Sender;

use super::Worker;
use crate::command::contexts::{Octets, Values, Written, read, show, write};

impl Worker {
    pub(crate) fn read_contexts(&mut self, function: u16, slots: &[u32], answer: &Sender<Octets>) {
        let now = self.clock.now();
        let functions = self.element.functions_mut();
        if let Some(at) = functions.get(usize::from(function)) {
            // The caller may be gone.
            drop(answer.send(read(&*at.instance, slots, now)));
        }
    }

    pub(crate) fn show_contexts(&mut self, function: u16, slots: &[u32], answer: &Sender<Values>) {
        let functions = self.element.functions_mut();
        if let Some(at) = functions.get(usize::from(function)) {
            // The caller may be gone.
            drop(answer.send(show(&*at.instance, slots)));
        }
    }

    pub(crate) fn write_contexts(
        &mut self,
        function: u16,
        contexts: Vec<(u32, Vec<u8>)>,
        answer: &Sender<Written>,
    ) {
        let now = self.clock.now();
        let functions = self.element.functions_mut();
        if let Some(at) = functions.get_mut(usize::from(function)) {
            // The caller may be gone.
            drop(answer.send(write(&mut *at.instance, contexts, now)));
        }
    }
}
