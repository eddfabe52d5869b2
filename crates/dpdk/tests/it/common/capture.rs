//! Capture files, in the classic format of libpcap: a header of 24 bytes, then
//! each frame behind a header of 16.

/// Times in microseconds.
const MAGIC: u32 = 0xa1b2_c3d4;
/// Times in nanoseconds, as DPDK writes them.
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const ETHERNET: u32 = 1;

/// A capture of `frames`.
pub fn of(frames: &[Vec<u8>]) -> Vec<u8> {
    // Magic number, version 2.4, time zone, accuracy, longest frame, link type.
    let header = [MAGIC, 2 | 4 << 16, 0, 0, 65535, ETHERNET];
    let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    for frame in frames {
        let length = frame.len() as u32;
        // Seconds, microseconds, bytes captured, bytes of the frame.
        bytes.extend([0, 0, length, length].iter().flat_map(|word: &u32| word.to_le_bytes()));
        bytes.extend(frame);
    }
    bytes
}

/// The frames of a capture.
pub fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let word = |bytes: &[u8], at| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert!([MAGIC, MAGIC_NANOSECONDS].contains(&word(bytes, 0)));
    assert_eq!(word(bytes, 20), ETHERNET);
    bytes = &bytes[24..];
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let captured = word(bytes, 8) as usize;
        assert_eq!(word(bytes, 12) as usize, captured, "a frame is whole");
        frames.push(bytes[16..16 + captured].to_vec());
        bytes = &bytes[16 + captured..];
    }
    frames
}
