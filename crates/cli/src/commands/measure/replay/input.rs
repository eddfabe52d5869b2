//! Captures that are read, merged by time.

use std::path::{Path, PathBuf};

use weft_traffic::capture;
pub use weft_traffic::capture::Frame;

use crate::failure::Failure;

/// All captures, each with the port its packets come in at.
pub struct Inputs {
    inputs: Vec<Input>,
}

struct Input {
    port: usize,
    capture: Capture,
    next: Option<Frame>,
}

impl Inputs {
    /// Opens the captures, of packets that fit buffers of `room` bytes.
    pub fn open(files: Vec<(usize, &PathBuf)>, room: usize) -> Result<Inputs, Failure> {
        let open = |(port, file): (usize, &PathBuf)| {
            let mut capture = Capture::open(file, room)?;
            let next = capture.next()?;
            Ok(Input { port, capture, next })
        };
        Ok(Inputs { inputs: files.into_iter().map(open).collect::<Result<_, Failure>>()? })
    }

    /// Time of the first packet of all; 0 where there is none.
    pub fn first_time(&self) -> u64 {
        self.times().min().map_or(0, |(time, _)| time)
    }

    /// The next packet, with its port. Of packets of one time, that of the
    /// capture that was named first comes first.
    pub fn next(&mut self) -> Result<Option<(usize, Frame)>, Failure> {
        let Some((_, first)) = self.times().min() else { return Ok(None) };
        let input = &mut self.inputs[first];
        let next = input.capture.next()?;
        Ok(std::mem::replace(&mut input.next, next).map(|frame| (input.port, frame)))
    }

    fn times(&self) -> impl Iterator<Item = (u64, usize)> {
        let inputs = self.inputs.iter().enumerate();
        inputs.filter_map(|(number, input)| Some((input.next.as_ref()?.time, number)))
    }
}

/// One capture file.
struct Capture {
    name: String,
    reader: capture::Capture,
    warned: bool,
    room: usize,
}

impl Capture {
    fn open(file: &Path, room: usize) -> Result<Capture, Failure> {
        let name = file.display().to_string();
        let reader = capture::Capture::open(file);
        let reader = reader.map_err(|reason| Failure::input(format!("{name}: {reason}")))?;
        Ok(Capture { name, reader, warned: false, room })
    }

    fn next(&mut self) -> Result<Option<Frame>, Failure> {
        let read = self.reader.next_frame();
        let wrong = |reason: &str| Failure::input(format!("{}: {reason}", self.name));
        let Some(frame) = read.map_err(|reason| wrong(&reason))? else { return Ok(None) };
        let (place, room) = (format!("packet {}", self.reader.packets()), self.room);
        if frame.bytes.len() > room {
            let bytes = frame.bytes.len();
            let reason = format!("{place}: {bytes} bytes are more than a buffer holds ({room})");
            return Err(wrong(&reason));
        }
        if frame.bytes.len() < frame.length && !self.warned {
            self.warned = true;
            let name = &self.name;
            tracing::warn!("{name}: {place}: cut as it was captured; the node gets it as it is");
        }
        Ok(Some(frame))
    }
}
