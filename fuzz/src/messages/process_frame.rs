//! A packet that comes out of a ring: an input is how many tags there are, what is done, and
//! a frame, or changes of one that a node wrote.

use weft_function::PacketMetadata;
use weft_offload::frame::{Form, FrameKind, Record};

/// Service path of all frames.
const PATH: u32 = 77;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let [tags, what, rest @ ..] = bytes else { return };
    let form = Form::new(PATH, usize::from(tags % 10));
    if what & 1 == 0 {
        read(&form, rest);
        return;
    }
    let mut record = Record {
        ticket: 0x0102_0304,
        what: FrameKind::of(what >> 1 & 7).unwrap_or(FrameKind::Packet),
        reason: *what,
        now: u64::MAX - 5,
        order: 9,
        metadata: PacketMetadata { user: 3, bearer: 4, group: 5, ..PacketMetadata::default() },
    };
    // Tags that do not travel are not read.
    for slot in 0..usize::from(tags % 10).min(record.metadata.tags.len()) {
        record.metadata.tags[slot] = u32::from(*tags) << slot;
    }
    let mut frame = vec![0; form.header_length() + 60];
    form.write(&record, &mut frame);
    let (found, length) = form.read(&frame).expect("what was written is read");
    assert_eq!((found, length), (record, form.header_length()));
    for change in rest.chunks_exact(2) {
        if let Some(octet) = frame.get_mut(usize::from(change[0])) {
            *octet = change[1];
        }
    }
    read(&form, &frame);
}

/// Whatever comes is within the frame, or no frame of ours.
fn read(form: &Form, frame: &[u8]) {
    if let Some((_, length)) = form.read(frame) {
        assert!(length <= frame.len());
    }
}
