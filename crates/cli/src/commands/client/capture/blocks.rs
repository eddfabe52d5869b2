//! Blocks of a pcapng file, put together from pieces that end anywhere
//! (draft-ietf-opsawg-pcapng, section 3.1).

/// The section header's byte-order magic, as the writer's byte order has it.
const LITTLE_ENDIAN: [u8; 4] = 0x1a2b_3c4d_u32.to_le_bytes();
/// The type of a section header block, the same in both byte orders.
const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The type of an enhanced packet block.
const ENHANCED_PACKET: u32 = 6;
/// Type, length, and the magic of a section header.
const HEAD: usize = 12;

/// Puts blocks together.
#[derive(Default)]
pub struct Blocks {
    rest: Vec<u8>,
    little_endian: bool,
}

/// Blocks that are whole.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Whole {
    pub bytes: Vec<u8>,
    /// How many of the blocks hold a packet.
    pub packets: usize,
}

impl Blocks {
    /// The blocks that are whole with this piece.
    pub fn take(&mut self, piece: &[u8]) -> Whole {
        self.rest.extend_from_slice(piece);
        let (mut end, mut packets) = (0, 0);
        while let Some((kind, length)) = self.head(end) {
            if self.rest.len() - end < length {
                break;
            }
            end += length;
            packets += usize::from(kind == ENHANCED_PACKET);
        }
        Whole { bytes: self.rest.drain(..end).collect(), packets }
    }

    /// Type and length of the block that begins at `at`, once so much of it has come.
    fn head(&mut self, at: usize) -> Option<(u32, usize)> {
        let head: [u8; HEAD] = self.rest.get(at..at + HEAD)?.try_into().ok()?;
        let [kind, length, magic] = [0, 4, 8].map(|at| [0, 1, 2, 3].map(|byte| head[at + byte]));
        if kind == SECTION_HEADER {
            self.little_endian = magic == LITTLE_ENDIAN;
        }
        let number = if self.little_endian { u32::from_le_bytes } else { u32::from_be_bytes };
        // No block is shorter than its head and the length behind it.
        Some((number(kind), (number(length) as usize).max(HEAD)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: u32, body: &[u8], number: fn(u32) -> [u8; 4]) -> Vec<u8> {
        let length = number(HEAD as u32 + body.len() as u32);
        [&number(kind)[..], &length, body, &length].concat()
    }

    fn section(number: fn(u32) -> [u8; 4]) -> Vec<u8> {
        let kind = u32::from_be_bytes(SECTION_HEADER);
        block(kind, &[&number(0x1a2b_3c4d)[..], &[0; 12]].concat(), number)
    }

    #[test]
    fn blocks_are_whole_however_they_come() {
        for number in [u32::to_be_bytes, u32::to_le_bytes] {
            let blocks = [
                section(number),
                block(1, &[1; 8], number),
                block(6, &[2; 40], number),
                // A block without a body is as short as one can be.
                block(9, &[], number),
                block(6, &[3; 64], number),
            ];
            let (file, ends): (Vec<u8>, Vec<usize>) =
                blocks.iter().fold((Vec::new(), vec![0]), |(mut file, mut ends), block| {
                    file.extend_from_slice(block);
                    ends.push(file.len());
                    (file, ends)
                });
            for size in 1..=file.len() {
                let (mut put, mut packets, mut together) = (0, 0, Blocks::default());
                for piece in file.chunks(size) {
                    let whole = together.take(piece);
                    assert_eq!(whole.bytes, file[put..put + whole.bytes.len()]);
                    put += whole.bytes.len();
                    packets += whole.packets;
                    assert!(ends.contains(&put), "{put} is within a block");
                }
                assert_eq!((put, packets), (file.len(), 2));
            }
        }
    }
}
